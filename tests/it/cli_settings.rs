//! Settings through the binary itself: variables, files and exit codes.

use crate::cli_support::{serin, serin_with};

#[test]
fn variables_set_what_flags_set() {
    let output = serin_with(
        &["run", "--print-config", "--branch", "main"],
        &[
            ("SERIN_REPO", "https://ann:hush@git.example.com/a.git"),
            ("SERIN_BRANCH", "not-this-one"),
            ("SERIN_TAG", ""),
            ("SERIN_SIMULATE", "true"),
            ("SERIN_ALLOW_NAMESPACE", "shop,default"),
            ("SERIN_NO_STATUS_BRANCH", "false"),
            ("RUST_LOG", "serin=trace"),
        ],
    );
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    for line in [
        "simulate: true # SERIN_SIMULATE",
        "  repo: \"https://ann:***@git.example.com/a.git\" # SERIN_REPO",
        "  branch: main # --branch",
        "  namespaces: [shop, default] # SERIN_ALLOW_NAMESPACE",
        "  enabled: true # SERIN_NO_STATUS_BRANCH",
        "  level: \"serin=trace\" # RUST_LOG",
    ] {
        assert!(output.stdout.lines().any(|found| found == line), "{line}\n{}", output.stdout);
    }
    assert!(!output.stdout.contains("hush"));
}

#[test]
fn a_printed_configuration_is_a_settings_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("serin.yaml");
    let first = serin(&["run", "--print-config", "--repo=repo.git", "--cluster-name=prod", "--tag=v1"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stderr.contains("warning: source default follows the tag v1"), "{}", first.stderr);
    std::fs::write(&file, &first.stdout).unwrap();
    let second = serin(&["run", "--print-config", "--config", file.to_str().unwrap()]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    let values = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split(" # ").next().map(str::to_owned)).collect()
    };
    assert_eq!(values(&second.stdout), values(&first.stdout));
}

#[test]
fn wrong_settings_end_with_2_and_name_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("serin.yaml");
    std::fs::write(&file, "clusterName: c\nsources:\n- nmae: a\n").unwrap();
    let file = file.to_str().unwrap();
    let output = serin(&["run", "--config", file]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert_eq!(
        output.stderr,
        format!(
            "error: 3 problems in the settings\n\
             {file}:3:3: unknown field `nmae`\n  hint: did you mean `name`?\n\
             {file}:3:3: a source needs `name`\n\
             {file}:3:3: a source needs `repo`\n"
        )
    );
    let missing = serin(&["run", "--config", "/not/there.yaml"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.starts_with("error: --config: the settings file \"/not/there.yaml\" cannot be read"));
}

#[test]
fn wrong_usage_ends_with_2_and_the_version_with_0() {
    let output = serin(&["run", "--brunch", "main"]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""));
    assert!(output.stderr.contains("a similar argument exists: '--branch'"), "{}", output.stderr);
    assert_eq!(serin(&[]).code, 2);
    assert_eq!(serin(&["crds", "--log-level", "loud"]).code, 2);
    let version = serin(&["--version"]);
    assert_eq!((version.code, version.stdout), (0, format!("serin {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn crds_are_printed_as_yaml_documents() {
    let output = serin(&["crds"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_eq!(output.stdout.matches("kind: CustomResourceDefinition").count(), 3);
}

#[test]
fn status_without_a_cluster_ends_with_4() {
    let output = serin_with(&["status"], &[("KUBECONFIG", "/not/there"), ("HOME", "/not/there")]);
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{}", output.stderr);
    assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
    // A port that nobody listens on.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let config = "\
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: nobody, user: {}}]
";
    std::fs::write(&file, config).unwrap();
    let output = serin(&["status", "--kubeconfig", file.to_str().unwrap()]);
    assert_eq!(output.code, 4, "{}", output.stderr);
    assert!(output.stderr.contains("the API server cannot be reached"), "{}", output.stderr);
}
