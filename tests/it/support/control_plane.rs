//! A real Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager on loopback.
//!
//! One is shared by all tests of the process, each in a namespace of its own; a test that stops the API server
//! starts a private one. There is no node and no scheduler: [`super::kubelet`] decides which pods become ready.

use std::fmt::Write as _;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::kubelet::Kubelet;
use super::process::{self, Running};
use super::{eventually, until};

/// Who a client is to the API server. Audit events carry the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// May do everything.
    Admin,
    /// The kubelet of the tests; may do everything.
    Kubelet,
    /// kube-controller-manager; may do everything.
    Controllers,
    /// Serin; may do only what a test grants to the user `serin`.
    Serin,
    /// May do nothing.
    Nobody,
}

impl User {
    const ALL: [Self; 5] = [Self::Admin, Self::Kubelet, Self::Controllers, Self::Serin, Self::Nobody];

    /// The user name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Kubelet => "kubelet",
            Self::Controllers => "controllers",
            Self::Serin => "serin",
            Self::Nobody => "nobody",
        }
    }

    fn groups(self) -> &'static str {
        match self {
            Self::Admin | Self::Kubelet | Self::Controllers => "system:masters",
            Self::Serin | Self::Nobody => "",
        }
    }
}

/// One request, as the API server logged it after it had answered.
#[derive(Clone, Debug)]
pub(crate) struct AuditEvent(Value);

impl AuditEvent {
    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The header `User-Agent`.
    pub(crate) fn user_agent(&self) -> &str {
        self.text("/userAgent")
    }

    /// The user name.
    pub(crate) fn user(&self) -> &str {
        self.text("/user/username")
    }

    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, ...
    pub(crate) fn verb(&self) -> &str {
        self.text("/verb")
    }

    /// Path and query.
    pub(crate) fn uri(&self) -> &str {
        self.text("/requestURI")
    }

    /// The plural of the kind, with the subresource: `deployments`, `pods/status`.
    pub(crate) fn resource(&self) -> String {
        match self.text("/objectRef/subresource") {
            "" => self.text("/objectRef/resource").to_owned(),
            subresource => format!("{}/{subresource}", self.text("/objectRef/resource")),
        }
    }

    /// The namespace; empty where there is none.
    pub(crate) fn namespace(&self) -> &str {
        self.text("/objectRef/namespace")
    }

    /// The name; empty where the URL has none.
    pub(crate) fn name(&self) -> &str {
        self.text("/objectRef/name")
    }

    /// When the server received it.
    pub(crate) fn received(&self) -> jiff::Timestamp {
        self.text("/requestReceivedTimestamp").parse().expect("RFC 3339")
    }

    /// The HTTP status of the answer.
    pub(crate) fn code(&self) -> i64 {
        self.0.pointer("/responseStatus/code").and_then(Value::as_i64).unwrap_or_default()
    }

    /// The body of a write.
    pub(crate) fn body(&self) -> Option<&Value> {
        self.0.get("requestObject")
    }

    /// Whether it changes something.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb(), "get" | "list" | "watch")
    }
}

/// A place in the audit log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditMark(u64);

/// A running control plane; dropping it ends it.
pub(crate) struct ControlPlane {
    folder: PathBuf,
    assets: PathBuf,
    ports: Ports,
    kubelet: OnceLock<Kubelet>,
    controllers: Mutex<Option<Running>>,
    api_server: Mutex<Option<Running>>,
    etcd: Mutex<Option<Running>>,
}

struct Ports {
    etcd: u16,
    api_server: u16,
    controllers: u16,
}

impl ControlPlane {
    /// The one that all tests of this process share. The first caller waits some seconds for it.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(Self::start_private)
    }

    /// One of its own, for a test that stops or breaks it.
    pub(crate) fn start_private() -> Self {
        // A caller inside a runtime may not block on another one in its own thread.
        std::thread::spawn(Self::start).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn start() -> Self {
        // The tests link the TLS library twice over; this names the one to use. A second call changes nothing.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let assets = assets();
        let folder = process::scratch("control-plane");
        let ports =
            Ports { etcd: process::free_port(), api_server: process::free_port(), controllers: process::free_port() };
        write_configuration(&folder, ports.api_server);

        let etcd = start_etcd(&assets, &folder, &ports);
        let plane = Self {
            folder,
            assets,
            ports,
            kubelet: OnceLock::new(),
            controllers: Mutex::new(None),
            api_server: Mutex::new(None),
            etcd: Mutex::new(Some(etcd)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(plane.start_api_server());
        *plane.controllers.lock().expect("never poisoned") = Some(plane.start_controllers());
        plane
    }

    /// Starts the API server and waits until it is ready. It listens where it listened before.
    pub(crate) async fn start_api_server(&self) {
        let arguments = self.api_server_arguments();
        let log = self.folder.join("kube-apiserver.log");
        let running = Running::start(&self.assets.join("kube-apiserver"), &arguments, log);
        *self.api_server.lock().expect("never poisoned") = Some(running);
        eventually("the API server is ready", || async {
            {
                let mut running = self.api_server.lock().expect("never poisoned");
                let running = running.as_mut().expect("started above");
                assert!(!running.has_ended(), "kube-apiserver ended:\n{}", running.last_words());
            }
            // It writes its certificate, which the kubeconfig names, when it starts.
            let config = self.config(User::Admin).await?;
            let client = kube::Client::try_from(config).ok()?;
            let ready = kube::core::Request::new("").get("readyz", &kube::api::GetParams::default()).ok()?;
            client.request_text(ready).await.ok()
        })
        .await;
    }

    /// Kills the API server. Clients find the connection refused.
    pub(crate) fn stop_api_server(&self) {
        drop(self.api_server.lock().expect("never poisoned").take());
    }

    /// Kills etcd and starts it again on its data.
    pub(crate) fn restart_etcd(&self) {
        let mut etcd = self.etcd.lock().expect("never poisoned");
        drop(etcd.take());
        *etcd = Some(start_etcd(&self.assets, &self.folder, &self.ports));
    }

    /// The kubelet, started at the first call.
    pub(crate) fn kubelet(&self) -> &Kubelet {
        self.kubelet.get_or_init(|| Kubelet::start(self.kubeconfig(User::Kubelet)))
    }

    /// The path of a kubeconfig file of `user`.
    pub(crate) fn kubeconfig(&self, user: User) -> PathBuf {
        self.folder.join(format!("{}.kubeconfig", user.name()))
    }

    /// A client of `user`, bound to the runtime of the caller.
    pub(crate) async fn client(&self, user: User) -> kube::Client {
        let config = self.config(user).await.expect("a kubeconfig that we wrote");
        kube::Client::try_from(config).expect("a client")
    }

    /// A new namespace, of this caller alone.
    pub(crate) async fn namespace(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &namespace).await;
        name
    }

    /// Installs a CustomResourceDefinition and waits until its kind is served. One that is there stays.
    pub(crate) async fn install_crd(&self, crd: &Value) {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.create(path, crd).await;
        let client = self.client(User::Admin).await;
        let name = crd["metadata"]["name"].as_str().expect("a name");
        until("the CRD is established", || async {
            let get = kube::core::Request::new(path).get(name, &kube::api::GetParams::default()).expect("a request");
            let crd: Value = client.request(get).await.expect("the CRD just created");
            let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
        })
        .await;
    }

    /// Installs Serin's own CRDs.
    pub(crate) async fn install_serin_crds(&self) {
        for (file, text) in serin::api::crds::all() {
            let crd: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"));
            self.install_crd(&crd).await;
        }
    }

    /// Creates `object` in the collection at `path`, as the admin; an object of that name is left as it is.
    pub(crate) async fn create(&self, path: &str, object: &Value) {
        let client = self.client(User::Admin).await;
        let body = serde_json::to_vec(object).expect("JSON");
        let create = kube::core::Request::new(path).create(&kube::api::PostParams::default(), body);
        match client.request::<Value>(create.expect("a request")).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => panic!("create at {path}: {error}"),
        }
    }

    /// Deletes the object `name` of the collection at `path`, as the admin.
    pub(crate) async fn delete(&self, path: &str, name: &str) {
        let client = self.client(User::Admin).await;
        let delete = kube::core::Request::new(path).delete(name, &kube::api::DeleteParams::default());
        let _answer: Value = client.request(delete.expect("a request")).await.expect("a deletion");
    }

    /// The end of the audit log as it is now.
    pub(crate) fn audit_mark(&self) -> AuditMark {
        AuditMark(std::fs::metadata(self.audit_log()).map_or(0, |file| file.len()))
    }

    /// The requests that were answered since `mark`, in that order. An answer may arrive a moment before its line.
    pub(crate) fn audit_since(&self, mark: AuditMark) -> Vec<AuditEvent> {
        let mut file = std::fs::File::open(self.audit_log()).expect("the audit log");
        file.seek(SeekFrom::Start(mark.0)).expect("a place in the log");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("UTF-8");
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| AuditEvent(serde_json::from_str(line).expect("JSON"))).collect()
    }

    fn audit_log(&self) -> PathBuf {
        self.folder.join("audit.log")
    }

    async fn config(&self, user: User) -> Option<kube::Config> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user)).ok()?;
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.ok()
    }

    fn api_server_arguments(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--secure-port={}", self.ports.api_server),
            "--bind-address=127.0.0.1".into(),
            format!("--cert-dir={}", file("certificates")),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            format!("--service-account-key-file={}", file("service-account.key")),
            format!("--service-account-signing-key-file={}", file("service-account.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".into(),
            // Pods of a ServiceAccount that no controller has made yet would be refused.
            "--disable-admission-plugins=ServiceAccount".into(),
            "--allow-privileged=true".into(),
            format!("--audit-policy-file={}", file("audit-policy.yaml")),
            format!("--audit-log-path={}", file("audit.log")),
            // One file, however long: places in it are remembered.
            "--audit-log-maxsize=100000".to_owned(),
            "--profiling=false".into(),
        ]
    }

    fn start_controllers(&self) -> Running {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig(User::Controllers).display()),
            "--controllers=deployment,replicaset,garbagecollector,namespace,endpointslice,serviceaccount".into(),
            "--leader-elect=false".into(),
            "--use-service-account-credentials=false".into(),
            format!("--service-account-private-key-file={}", file("service-account.key")),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={}", self.ports.controllers),
            format!("--cert-dir={}", file("controller-certificates")),
            // The defaults hold back a whole test binary at 20 requests per second.
            "--kube-api-qps=500".into(),
            "--kube-api-burst=1000".into(),
        ];
        let log = self.folder.join("kube-controller-manager.log");
        Running::start(&self.assets.join("kube-controller-manager"), &arguments, log)
    }
}

fn start_etcd(assets: &Path, folder: &Path, ports: &Ports) -> Running {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", process::free_port());
    let arguments = [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".into(),
        "--log-level=error".into(),
    ];
    let mut etcd = Running::start(&assets.join("etcd"), &arguments, folder.join("etcd.log"));
    process::wait_for_port(ports.etcd, &mut etcd);
    etcd
}

fn write_configuration(folder: &Path, port: u16) {
    let key = folder.join("service-account.key");
    let made = Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048").output().expect("openssl");
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));

    let mut tokens = String::new();
    for user in User::ALL {
        let name = user.name();
        writeln!(tokens, "token-of-{name},{name},{name},\"{}\"", user.groups()).expect("a string takes all");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": folder.join("certificates/apiserver.crt"),
            }}],
            "users": [{"name": name, "user": {"token": format!("token-of-{name}")}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
        });
        let path = folder.join(format!("{name}.kubeconfig"));
        std::fs::write(path, kubeconfig.to_string()).expect("a kubeconfig");
    }
    std::fs::write(folder.join("tokens.csv"), tokens).expect("the tokens");

    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*"]},
            {"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
            {"level": "Metadata", "users": [User::Controllers.name(), User::Kubelet.name()]},
            {"level": "Request", "verbs": ["create", "update", "patch", "delete"]},
            {"level": "Metadata"},
        ],
    });
    std::fs::write(folder.join("audit-policy.yaml"), policy.to_string()).expect("the audit policy");
}

/// The folder with the programs: `SERIN_KUBE_ASSETS`, or what `tests/kube/build` finds or builds.
fn assets() -> PathBuf {
    if let Some(folder) = std::env::var_os("SERIN_KUBE_ASSETS") {
        return folder.into();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kube/build");
    let built = Command::new(&script).output().expect("bash");
    assert!(built.status.success(), "{}:\n{}", script.display(), String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).expect("a path").trim_end().into()
}
