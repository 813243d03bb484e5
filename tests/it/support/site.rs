//! Everything that a rollout needs, real: a namespace of the shared control plane, a repository on a git server with a
//! person's clone of it, and the daemon as a program.
//!
//! Each site has a namespace, a repository and a cluster name of its own and watches nothing else, so that the daemons of
//! many tests run side by side. Pushes are announced by SIGHUP: what is measured is never the poll interval.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use serin::clock::Clock;
use serin::settings::{ClusterArgs, GitArgs, GrantArgs, RunArgs};

use super::control_plane::{AuditEvent, AuditMark, ControlPlane, User};
use super::git_clone;
use super::git_server::{GitServer, Protocol};
use super::in_process::InProcess;
use super::kubelet::Behaviour;
use super::manifests::{Manifest, pack};
use super::pod_log::PodLog;
use super::process::{self, Running};
use super::second::{Second, http, says_that_it_leads};
use super::small_disk::{self, SmallDisk};
use super::{LOOK_EVERY, PATIENCE, rights, site_git};

/// The name of the agent of most tests.
pub(crate) const AGENT: &str = "assistant";
/// The file that it stands in.
pub(crate) const AGENT_FILE: &str = "agents/assistant.yaml";
/// The repository's name on the server.
pub(super) const REPOSITORY: &str = "config";

/// One installation of Serin.
pub(crate) struct Site {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) namespace: String,
    pub(crate) server: GitServer,
    pub(crate) clone: git_clone::Clone,
    pub(crate) port: u16,
    client: kube::Client,
    folder: PathBuf,
    mark: AuditMark,
    daemon: Mutex<Option<Running>>,
    /// The kubeconfig of the daemon; `None`: straight to the API server.
    kubeconfig: Mutex<Option<PathBuf>>,
    /// What the mirrors of daemons lie on; `None`: where everything lies.
    disk: Mutex<Option<SmallDisk>>,
}

impl Site {
    /// A site without a daemon and with an empty repository.
    pub(crate) async fn empty() -> Self {
        Self::served_by(Protocol::Git).await
    }

    /// The same, on a server of this protocol.
    pub(crate) async fn served_by(protocol: Protocol) -> Self {
        Self::on(ControlPlane::shared(), protocol).await
    }

    /// The same on a control plane of its own, which ends with the process.
    pub(crate) async fn alone() -> Self {
        Self::on(Box::leak(Box::new(ControlPlane::start_private())), Protocol::Git).await
    }

    async fn on(plane: &'static ControlPlane, protocol: Protocol) -> Self {
        plane.install_serin_crds().await;
        let _started = plane.kubelet();
        let namespace = plane.namespace().await;
        rights::grant(plane, &namespace).await;
        let server = GitServer::start(protocol);
        server.create(REPOSITORY);
        site_git::watch_moves(&server);
        let clone = git_clone::Clone::of(&server.url(REPOSITORY));
        Self {
            client: plane.client(User::Admin).await,
            mark: plane.audit_mark(),
            plane,
            namespace,
            server,
            clone,
            port: process::free_port(),
            folder: process::scratch("site"),
            daemon: Mutex::new(None),
            kubeconfig: Mutex::new(None),
            disk: Mutex::new(None),
        }
    }

    /// A site whose agent runs `manifest` with all its pods, and whose repository has the packs 1.0.0 to 3.0.0.
    pub(crate) async fn running(manifest: &Manifest) -> Self {
        let site = Self::empty().await;
        site.start_with(manifest).await;
        site
    }

    /// Pushes `manifest` and the packs, starts the daemon, and waits until the agent has all its pods.
    pub(crate) async fn start_with(&self, manifest: &Manifest) {
        for version in ["1.0.0", "2.0.0", "3.0.0"] {
            self.clone.write(&format!("packs/{version}.yaml"), &pack(&self.namespace, version));
        }
        self.clone.write(AGENT_FILE, &manifest.render(&self.namespace));
        self.clone.commit("an agent on version 1.0.0");
        self.clone.push();
        self.start().await;
        self.until_stable(&manifest.version, manifest.replicas).await;
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) async fn start(&self) {
        self.start_on(&self.source()).await;
    }

    /// Starts the daemon on a settings file with these contents and waits until it is ready. What it says about sources
    /// and namespaces is for the file to say.
    pub(crate) async fn start_with_settings(&self, settings: &str) {
        let file = self.folder.join("serin.yaml");
        std::fs::write(&file, settings).expect("a settings file");
        self.start_on(&[format!("--config={}", file.display())]).await;
    }

    /// The address of the repository.
    pub(crate) fn repo(&self) -> String {
        self.server.url(REPOSITORY)
    }

    /// The flags of most daemons about what they follow and where.
    fn source(&self) -> [String; 3] {
        [
            format!("--repo={}", self.repo()),
            format!("--watch-namespace={}", self.namespace),
            format!("--default-namespace={}", self.namespace),
        ]
    }

    async fn start_on(&self, source: &[String]) {
        let running = self.start_daemon(source, &self.folder.join("mirror"), self.port, self.log_file());
        *self.process() = Some(running);
        self.until("the daemon is ready", || async {
            self.assert_runs();
            self.http("/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
        })
        .await;
    }

    /// Starts a daemon with its own mirrors and port, and waits for nothing.
    fn start_daemon(&self, source: &[String], mirrors: &Path, port: u16, log: PathBuf) -> Running {
        let direct = self.plane.kubeconfig(User::Serin);
        let kubeconfig = self.kubeconfig.lock().expect("never poisoned").clone().unwrap_or(direct);
        let arguments = [
            "run",
            &format!("--cluster-name={}", self.namespace),
            &format!("--kubeconfig={}", kubeconfig.display()),
            &format!("--lease-namespace={}", self.namespace),
            &format!("--mirror-dir={}", mirrors.display()),
            &format!("--listen=127.0.0.1:{port}"),
            "--poll-interval=5m",
            "--status-interval=1s",
            "--log-format=text",
            "--log-level=info,serin=debug",
        ]
        .map(str::to_owned);
        let disk = *self.disk.lock().expect("never poisoned");
        let before = disk.map_or_else(Vec::new, |disk| disk.command(mirrors));
        let serin = [env!("CARGO_BIN_EXE_serin").to_owned()];
        let command = [&before[..], &serin, &arguments, source].concat();
        Running::start(Path::new(&command[0]), &command[1..], log)
    }

    /// From now on daemons of this site keep their mirrors on such a disk.
    pub(crate) fn keep_mirrors_on(&self, disk: SmallDisk) {
        *self.disk.lock().expect("never poisoned") = Some(disk);
    }

    /// The disk, where it lies, and the process that has it.
    fn disk(&self) -> (SmallDisk, PathBuf, u32) {
        let disk = self.disk.lock().expect("never poisoned").expect("a small disk");
        (disk, self.folder.join("mirror"), self.process().as_ref().expect("a daemon that runs").id())
    }

    /// The folder of the mirror on it.
    pub(crate) fn mirror_on_disk(&self) -> PathBuf {
        let (_, folder, process) = self.disk();
        small_disk::seen_by(&folder, process).join("default")
    }

    /// Leaves no room on it.
    pub(crate) fn fill_disk(&self) {
        let (disk, folder, process) = self.disk();
        disk.fill(&folder, process);
    }

    /// Makes room on it again.
    pub(crate) fn make_room_on_disk(&self) {
        let (disk, folder, process) = self.disk();
        disk.make_room(&folder, process);
    }

    /// Starts another daemon with the same settings beside the one of the site, as happens by mistake.
    pub(crate) fn start_second(&self) -> Second {
        let (port, log) = (process::free_port(), self.folder.join("second.log"));
        let running = self.start_daemon(&self.source(), &self.folder.join("second-mirror"), port, log.clone());
        Second { running, port, log }
    }

    /// From now on daemons of this site talk to the API server at `server`, a plain HTTP address.
    pub(crate) fn go_through(&self, server: &str) {
        let path = self.folder.join("proxied.kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxied",
            "clusters": [{"name": "proxied", "cluster": {"server": server}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "proxied", "context": {"cluster": "proxied", "user": "nobody"}}],
        });
        std::fs::write(&path, config.to_string()).expect("a kubeconfig");
        *self.kubeconfig.lock().expect("never poisoned") = Some(path);
    }

    /// Kills the daemon with SIGKILL, in the middle of whatever it does.
    pub(crate) fn kill(&self) {
        drop(self.process().take().expect("a daemon that runs"));
    }

    /// Kills the daemon and starts another one.
    pub(crate) async fn restart(&self) {
        self.kill();
        self.start().await;
    }

    /// Starts the daemon inside this process, with everything real but its clock, which is `clock`.
    pub(crate) async fn start_in_process(&self, clock: Arc<dyn Clock>) -> InProcess {
        let text = |text: &str| Some(text.to_owned());
        let args = RunArgs {
            repo: Some(self.repo()),
            grants: GrantArgs { default_namespace: Some(self.namespace.clone()), ..GrantArgs::default() },
            watch_namespace: vec![self.namespace.clone()],
            cluster_name: Some(self.namespace.clone()),
            cluster: ClusterArgs {
                kubeconfig: Some(self.plane.kubeconfig(User::Serin).display().to_string()),
                ..ClusterArgs::default()
            },
            git: GitArgs { mirror_dir: Some(self.folder.join("mirror").display().to_string()), ..GitArgs::default() },
            // A Lease is the business of the clock that all share.
            no_lease: text("true"),
            listen: text("none"),
            poll_interval: text("5m"),
            status_interval: text("1s"),
            ..RunArgs::default()
        };
        InProcess::start(args, clock).await
    }

    /// Sends SIGTERM and returns the exit code and how long the daemon took to end.
    pub(crate) async fn terminate(&self) -> (Option<i32>, Duration) {
        let started = tokio::time::Instant::now();
        self.process().as_ref().expect("a daemon that runs").signal("TERM");
        let code = self
            .eventually("the daemon ends", || async {
                self.process().as_mut().expect("a daemon").exit_status().map(|status| status.code())
            })
            .await;
        drop(self.process().take());
        (code, started.elapsed())
    }

    /// Tells the daemon that there is something to fetch.
    pub(crate) fn announce(&self) {
        if let Some(daemon) = self.process().as_ref() {
            daemon.signal("HUP");
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Running>> {
        self.daemon.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn assert_runs(&self) {
        if let Some(daemon) = self.process().as_mut()
            && let Some(status) = daemon.exit_status()
        {
            panic!("the daemon ended with {status}:\n{}", daemon.last_words());
        }
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("serin.log")
    }

    /// Everything that all daemons of this site have logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Asks the daemon's own server; the whole answer.
    pub(crate) fn http(&self, path: &str) -> Option<String> {
        http(self.port, path)
    }

    /// Whether the daemon says that it leads.
    pub(crate) fn leads(&self) -> bool {
        says_that_it_leads(self.port)
    }
}

/// What is in the cluster.
impl Site {
    /// An object of this namespace; `None`: there is none.
    pub(crate) async fn get(&self, plural: &str, name: &str) -> Option<Value> {
        let request = kube::core::Request::new(self.collection(plural)).get(name, &GetParams::default());
        match self.client.request(request.expect("a request")).await {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.is_not_found() => None,
            Err(error) => panic!("get {plural} {name}: {error}"),
        }
    }

    /// All objects of a kind in this namespace.
    pub(crate) async fn list(&self, plural: &str) -> Vec<Value> {
        let request = kube::core::Request::new(self.collection(plural)).list(&ListParams::default());
        let list: Value = self.client.request(request.expect("a request")).await.expect("a list");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Applies an object as `kubectl apply --server-side --force-conflicts` does, as the field manager `manager`.
    pub(crate) async fn apply(&self, plural: &str, object: &Value, manager: &str) -> Value {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let request = kube::core::Request::new(self.collection(plural)).patch(
            name,
            &PatchParams::apply(manager).force(),
            &Patch::Apply(object),
        );
        self.client.request(request.expect("a request")).await.unwrap_or_else(|error| panic!("apply {name}: {error}"))
    }

    /// Changes an object by a JSON merge patch, as a person does with `kubectl edit`.
    pub(crate) async fn edit(&self, plural: &str, name: &str, patch: &Value) -> Value {
        let request = kube::core::Request::new(self.collection(plural)).patch(
            name,
            &PatchParams { field_manager: Some("kubectl-edit".into()), ..PatchParams::default() },
            &Patch::Merge(patch),
        );
        self.client.request(request.expect("a request")).await.unwrap_or_else(|error| panic!("edit {name}: {error}"))
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        let request = kube::core::Request::new(self.collection(plural)).delete(name, &DeleteParams::default());
        let _answer: Value = self.client.request(request.expect("a request")).await.expect("a deletion");
    }

    /// The agent of most tests.
    pub(crate) async fn agent(&self) -> Value {
        self.get("agentruntimes", AGENT).await.unwrap_or(Value::Null)
    }

    /// Its `status.rollout`.
    pub(crate) async fn rollout(&self) -> Value {
        self.agent().await["status"]["rollout"].clone()
    }

    /// A condition of an agent.
    pub(crate) async fn condition(&self, agent: &str, kind: &str) -> Value {
        let agent = self.get("agentruntimes", agent).await.unwrap_or(Value::Null);
        let conditions = agent["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or(Value::Null)
    }

    /// Wanted and available pods of a Deployment; `None`: there is none.
    pub(crate) async fn replicas(&self, deployment: &str) -> Option<(u64, u64)> {
        let deployment = self.get("deployments", deployment).await?;
        let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        Some((number("/spec/replicas"), number("/status/availableReplicas")))
    }

    /// Pods whose names start with `prefix` behave like this from now on, those that exist too.
    pub(crate) async fn pods_are(&self, prefix: &str, behaviour: Behaviour) {
        self.plane.kubelet().set(&self.namespace, prefix, behaviour).await;
    }

    /// Records the pods of this namespace from now on.
    pub(crate) async fn watch_pods(&self) -> PodLog {
        PodLog::start(self.plane.client(User::Admin).await, &self.namespace).await
    }

    /// What the daemon asked of the API server since the site was made, in the order of the answers.
    pub(crate) fn requests(&self) -> Vec<AuditEvent> {
        self.requests_since(self.mark)
    }

    /// The same since a mark.
    pub(crate) fn requests_since(&self, mark: AuditMark) -> Vec<AuditEvent> {
        let all = self.plane.audit_since(mark).into_iter();
        all.filter(|event| event.user() == User::Serin.name() && event.namespace() == self.namespace).collect()
    }

    fn collection(&self, plural: &str) -> String {
        let root = match plural {
            "agentruntimes" | "promptpacks" | "rolloutanalyses" => "/apis/omnia.altairalabs.ai/v1alpha1",
            "deployments" | "replicasets" => "/apis/apps/v1",
            "events" => "/apis/events.k8s.io/v1",
            "leases" => "/apis/coordination.k8s.io/v1",
            "roles" | "rolebindings" => "/apis/rbac.authorization.k8s.io/v1",
            _ => "/api/v1",
        };
        format!("{root}/namespaces/{}/{plural}", self.namespace)
    }
}

/// Waiting.
impl Site {
    /// Looks again and again until `probe` finds something.
    ///
    /// # Panics
    /// If the daemon ends, or after a minute, with the status, the Deployments, git and the end of the daemon's log.
    pub(crate) async fn eventually<T, F>(&self, what: &str, mut probe: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let search = async {
            loop {
                if let Some(found) = probe().await {
                    return found;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        match tokio::time::timeout(PATIENCE, search).await {
            Ok(found) => found,
            Err(_) => panic!("waited {PATIENCE:?} in vain: {what}\n{}", self.describe().await),
        }
    }

    /// The same for a condition without an answer.
    pub(crate) async fn until<F>(&self, what: &str, mut holds: impl FnMut() -> F)
    where
        F: Future<Output = bool>,
    {
        self.eventually(what, || {
            let holds = holds();
            async move { holds.await.then_some(()) }
        })
        .await;
    }

    /// Waits until `status.rollout` is as `holds` says; gives it back.
    pub(crate) async fn until_rollout(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.eventually(what, || async {
            let rollout = self.rollout().await;
            holds(&rollout).then_some(rollout)
        })
        .await
    }

    /// Waits until a rollout stands at step `step` (from 0).
    pub(crate) async fn until_step(&self, step: u64) -> Value {
        let holds = |rollout: &Value| rollout["active"] == true && rollout["currentStep"] == step;
        self.until_rollout(&format!("step {step}"), holds).await
    }

    /// Waits until a rollout pauses for a person; gives back what the resume annotation has to say.
    pub(crate) async fn until_resumable(&self) -> String {
        let marker = format!("{} to ", serin::api::names::RESUME_ANNOTATION);
        self.eventually("a pause without an end", || async {
            let rollout = self.rollout().await;
            let (_, token) = rollout["message"].as_str()?.split_once(&marker)?;
            Some(token.to_owned())
        })
        .await
    }

    /// Waits until the agent has no rollout, no candidate, and `replicas` available pods, all of `version`.
    pub(crate) async fn until_stable(&self, version: &str, replicas: u64) {
        self.until(&format!("{replicas} stable pods of version {version} and no candidate"), || async {
            let agent = self.agent().await;
            agent["status"]["rollout"]["active"] != true
                && agent["status"]["activeVersion"] == version
                && self.replicas(AGENT).await == Some((replicas, replicas))
                && self.replicas(&format!("{AGENT}-canary")).await.is_none()
                && self.list("pods").await.iter().all(|pod| super::pod_log::version_of(pod) == version)
        })
        .await;
    }

    /// Waits until a commit that is pushed now is in the cluster: by then everything before it was looked at.
    pub(crate) async fn until_looked_at(&self) {
        let name = self.push_mark();
        self.until("a mark is applied", || async { self.get("configmaps", &name).await.is_some() }).await;
    }

    /// Pushes a ConfigMap. Gives back its name.
    pub(crate) fn push_mark(&self) -> String {
        let name = format!("mark-{}", self.moves().len());
        let map =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {}\n", self.namespace);
        self.clone.pull();
        self.push_file("marks.yaml", &map, "a mark");
        name
    }

    /// How many rollouts the agent of most tests has had.
    pub(crate) async fn count_rollouts(&self) -> u64 {
        let agent = self.agent().await;
        let record = agent["metadata"]["annotations"][serin::api::names::RECORD_ANNOTATION].as_str().unwrap_or("{}");
        serde_json::from_str::<Value>(record).expect("JSON")["sequence"].as_u64().unwrap_or(0)
    }

    /// All that one wants to know when something did not happen.
    async fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        for agent in self.list("agentruntimes").await {
            let _ = writeln!(text, "agent {}: {}", agent["metadata"]["name"], agent["status"]);
            let _ = writeln!(text, "  record: {}", agent["metadata"]["annotations"]["serin.dev/rollout"]);
        }
        for deployment in self.list("deployments").await {
            let name = &deployment["metadata"]["name"];
            let _ = writeln!(
                text,
                "Deployment {name}: wants {}, status {}",
                deployment["spec"]["replicas"], deployment["status"]
            );
        }
        if !self.moves().is_empty() {
            let _ = writeln!(text, "git:\n{}", self.server_git(&["log", "--format=%h %an: %s", "-8", "main"]));
        }
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let _ = writeln!(text, "daemon:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        text
    }
}
