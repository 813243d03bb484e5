//! Noticing at once that a repository on this machine has moved.
//!
//! The file system tells about the places where git keeps refs. Nothing rests on it: a lost event, or a
//! machine without file notifications, costs one poll interval. The folder may be deleted and made again;
//! once a second its identity is compared, and the watch is put on the new one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};

use super::local;

/// One push writes several files; they arrive within a few milliseconds of each other.
const QUIET: Duration = Duration::from_millis(100);
/// How often the folder's identity is looked at: two `stat` calls.
const IDENTITY_CHECK: Duration = Duration::from_secs(1);

/// Yields whenever a ref of the repository at `path` may have moved. Never ends. Needs a tokio runtime.
pub(super) fn changes(path: &Path) -> BoxStream<'static, ()> {
    let watch = Watch { path: path.to_owned(), armed: None };
    stream::unfold(watch, |mut watch| async move {
        watch.next().await;
        Some(((), watch))
    })
    .boxed()
}

struct Watch {
    path: PathBuf,
    armed: Option<Armed>,
}

struct Armed {
    folder: PathBuf,
    identity: Option<Identity>,
    events: mpsc::UnboundedReceiver<()>,
    _watcher: Option<RecommendedWatcher>,
}

/// Device and inode of the git folder and of its `refs`.
type Identity = [(u64, u64); 2];

impl Watch {
    /// Waits for the next change.
    async fn next(&mut self) {
        let mut armed = match self.armed.take() {
            Some(armed) => armed,
            None => self.arm(),
        };
        loop {
            match tokio::time::timeout(IDENTITY_CHECK, armed.events.next()).await {
                Ok(Some(())) => {
                    tokio::time::sleep(QUIET).await;
                    while armed.events.try_recv().is_ok() {}
                    break;
                }
                // The watcher is gone, or nothing happened.
                Ok(None) => tokio::time::sleep(IDENTITY_CHECK).await,
                Err(_) => {}
            }
            if self.is_replaced(&armed) {
                break;
            }
        }
        // A change that replaced the folder needs a new watch before the next wait.
        let current = if self.is_replaced(&armed) { self.arm() } else { armed };
        self.armed = Some(current);
    }

    fn is_replaced(&self, armed: &Armed) -> bool {
        // Where there was nothing, what appears may be a bare repository or a work tree.
        let missing = armed.identity.is_none().then(|| git_folder(&self.path));
        identity(missing.as_ref().unwrap_or(&armed.folder)) != armed.identity
    }

    fn arm(&self) -> Armed {
        let folder = git_folder(&self.path);
        let (sender, events) = mpsc::unbounded();
        let relevant = Relevant { folder: folder.clone() };
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| relevant.concerns(&event)) {
                // The receiver is gone only when the stream is.
                let _sent = sender.unbounded_send(());
            }
        })
        .and_then(|mut watcher| {
            watcher.watch(&folder, RecursiveMode::NonRecursive)?;
            watcher.watch(&folder.join("refs"), RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        Armed { identity: identity(&folder), folder, events, _watcher: watcher.ok() }
    }
}

struct Relevant {
    folder: PathBuf,
}

impl Relevant {
    /// Whether an event is about refs. Reading is none: our own fetch must not wake us. Neither are git's
    /// lock files: the rename that ends the write is.
    fn concerns(&self, event: &Event) -> bool {
        !event.kind.is_access() && event.paths.iter().any(|path| self.is_ref(path))
    }

    fn is_ref(&self, path: &Path) -> bool {
        let Ok(inner) = path.strip_prefix(&self.folder) else { return false };
        if inner.extension().is_some_and(|extension| extension == "lock") {
            return false;
        }
        inner.as_os_str().is_empty()
            || inner.starts_with("refs")
            || inner == Path::new("HEAD")
            || inner == Path::new("packed-refs")
    }
}

/// The folder that holds the refs: the path itself, its `.git`, or what a linked work tree belongs to.
fn git_folder(path: &Path) -> PathBuf {
    match local::open(path) {
        Ok(repo) => repo.commondir().to_owned(),
        Err(_) if path.join(".git").is_dir() => path.join(".git"),
        Err(_) => path.to_owned(),
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let of = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    Some([of(folder)?, of(&folder.join("refs"))?])
}

#[cfg(test)]
mod tests {
    use notify::EventKind;
    use notify::event::{AccessKind, CreateKind};

    use super::*;

    #[test]
    fn only_refs_wake_the_reader() {
        let relevant = Relevant { folder: PathBuf::from("/srv/shop.git") };
        let created = |path: &str| Event::new(EventKind::Create(CreateKind::File)).add_path(PathBuf::from(path));
        assert!(relevant.concerns(&created("/srv/shop.git/refs/heads/main")));
        assert!(relevant.concerns(&created("/srv/shop.git/packed-refs")));
        assert!(relevant.concerns(&created("/srv/shop.git")));
        assert!(!relevant.concerns(&created("/srv/shop.git/refs/heads/main.lock")));
        assert!(!relevant.concerns(&created("/srv/shop.git/index")));
        let read = Event::new(EventKind::Access(AccessKind::Read)).add_path(PathBuf::from("/srv/shop.git/HEAD"));
        assert!(!relevant.concerns(&read));
    }
}
