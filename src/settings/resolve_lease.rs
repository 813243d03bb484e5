//! Which Lease tells several Serins apart.
//!
//! Two daemons of one cluster exclude each other only if they name the same Lease, so its default depends on nothing that
//! two people who install Serin twice by mistake would choose differently. Daemons that watch namespaces of their own are
//! meant to run side by side: their Lease is where they are.

use crate::manifest::Namespaces;
use crate::settings::check::{parse_label, parse_switch};
use crate::settings::effective::{ClusterAccess, LeaseSettings};
use crate::settings::file::Text;
use crate::settings::origin::Origin;
use crate::settings::problem::Problem;
use crate::settings::resolve::Resolver;

/// The name of the Lease when nothing is said.
pub(crate) const DEFAULT_LEASE: &str = "serin";

/// What was typed about the Lease.
pub(crate) struct LeaseGiven {
    /// `--no-lease`.
    pub(crate) off: Option<Text>,
    /// `lease.enabled`.
    pub(crate) enabled: Option<Text>,
    /// Its name.
    pub(crate) name: Option<Text>,
    /// Its namespace.
    pub(crate) namespace: Option<Text>,
}

/// The Lease that is meant; `None`: none is taken. The simulated cluster has no second Serin.
pub(crate) fn resolve_lease(
    resolver: &mut Resolver<'_>,
    given: LeaseGiven,
    cluster: &ClusterAccess,
) -> Option<LeaseSettings> {
    let LeaseGiven { off, enabled, name, namespace } = given;
    let path = "lease.enabled";
    let enabled = match off {
        Some(off) => resolver.parse(path, Some(off), |text| parse_switch(text).map(|is_off| !is_off)),
        None => resolver.parse(path, enabled, parse_switch),
    };
    let is_off_by_flag = matches!(resolver.origins.get(path), Some(Origin::Flag(_)));
    let flags: Vec<Origin> = [&name, &namespace].into_iter().flatten().map(|given| given.origin.clone()).collect();
    let name = resolver.parse("lease.name", name, parse_label);
    let namespace = resolver.parse("lease.namespace", namespace, parse_label);
    let ClusterAccess::Kubernetes { namespaces, .. } = cluster else { return None };
    if enabled == Some(false) {
        // A variable or the file may be overruled; two flags of one command contradict.
        for at in flags.into_iter().filter(|at| is_off_by_flag && matches!(at, Origin::Flag(_))) {
            let message = format!("{at} contradicts --no-lease");
            resolver.problems.push(Problem::new(at, message));
        }
        return None;
    }
    let watched = match namespaces {
        Namespaces::Any => None,
        Namespaces::Only(names) => names.first().cloned(),
    };
    Some(LeaseSettings { name: name.unwrap_or_else(|| DEFAULT_LEASE.to_owned()), namespace: namespace.or(watched) })
}
