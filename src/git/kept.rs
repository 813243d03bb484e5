//! Where the mirror keeps what the remote has: refs of its own, `refs/serin/...`, so that nothing else in the repository
//! (a tag that was moved, a branch called like a folder of others) gets in the way.

use git2::Oid;

use super::error::Failure;
use crate::ids::BranchName;

/// Where something of the remote was last.
pub(super) fn local_tip(mirror: &git2::Repository, name: &str) -> Option<Oid> {
    mirror.find_reference(name).ok()?.target()
}

/// Notes where something of the remote is; `None`: it is not there any more.
pub(super) fn keep(mirror: &git2::Repository, name: &str, at: Option<Oid>) -> Result<(), Failure> {
    let noted = match at {
        Some(at) if local_tip(mirror, name) == Some(at) => Ok(()),
        Some(at) => mirror.reference(name, at, true, "serin: fetch").map(|_| ()),
        None => mirror.find_reference(name).map_or(Ok(()), |mut found| found.delete()),
    };
    noted.map_err(Failure::Mirror)
}

/// The remote's name for one of the mirror's refs.
pub(super) fn remote_name(kept: &str) -> Option<String> {
    let (kind, name) = kept.strip_prefix("refs/serin/")?.split_once('/')?;
    (kind != "commits").then(|| format!("refs/{kind}/{}", name.replace("%2F", "/").replace("%25", "%")))
}

/// The remote's name for a branch.
pub(super) fn full_name(branch: &BranchName) -> String {
    format!("refs/heads/{branch}")
}

/// The mirror's name for it.
pub(super) fn kept_branch(branch: &BranchName) -> String {
    format!("refs/serin/heads/{}", one_component(branch.as_str()))
}

/// A ref name as one path component: a ref may not be a file and a folder at once.
pub(super) fn one_component(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}
