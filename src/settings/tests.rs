//! From what people type to settings, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Command, FromArgMatches};

use super::resolve::resolve;
use super::*;
use crate::git::Revision;
use crate::ids::{BranchName, CommitSha, SourceName};
use crate::manifest::{KindRule, Namespaces};
use crate::object::Kind;

fn environment() -> Environment {
    Environment { current_dir: "/here".into(), home: Some("/home/ann".into()), ..Environment::default() }
}

fn typed(flags: &[&str]) -> (RunArgs, LogArgs, TypedAs) {
    let command = LogArgs::augment_args(RunArgs::augment_args(Command::new("run")));
    // Variables of the machine that runs the tests must not count.
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    let matches = command.try_get_matches_from([&["run"], flags].concat()).unwrap();
    (
        RunArgs::from_arg_matches(&matches).unwrap(),
        LogArgs::from_arg_matches(&matches).unwrap(),
        TypedAs::from_matches(&matches),
    )
}

fn load_from(flags: &[&str], file: Option<&str>) -> Result<Loaded, Problems> {
    let (args, log, typed) = typed(flags);
    resolve(args, log, &typed, &environment(), file.map(|text| ("etc/serin.yaml".to_owned(), text.to_owned())))
}

#[track_caller]
pub(super) fn good(flags: &[&str], file: Option<&str>) -> Loaded {
    load_from(flags, file).unwrap_or_else(|problems| panic!("{problems}"))
}

#[track_caller]
pub(super) fn bad(flags: &[&str], file: Option<&str>) -> String {
    load_from(flags, file).expect_err("there are problems").to_string()
}

const TWO_SOURCES: &str = "\
clusterName: prod
defaults:
  pollInterval: 2m
sources:
- name: agents
  repo: https://ann:secret@git.example.com/team/agents.git
  path: ./clusters/prod/
  namespaces: [shop, default]
- name: packs
  repo: ../packs
  tag: v1.2
  pollInterval: 10m
  author: {name: Bot, email: bot@example.com}
";

#[test]
fn three_flags_are_enough_and_the_rest_has_defaults() {
    let loaded = good(&["--repo", "https://git.example.com/a.git", "--cluster-name", "prod"], None);
    insta::assert_snapshot!(render_config(&loaded), @r#"
    clusterName: prod # --cluster-name
    simulate: false # default
    sources:
    - name: default # default
      repo: https://git.example.com/a.git # --repo
      branch: main # default
      path: "" # default
      defaultNamespace: default # default
      kinds: ["*.omnia.altairalabs.ai", ConfigMap] # default
      # namespaces: any
      pollInterval: 1m # default
      author:
        name: Serin # default
        email: serin@prod.invalid # default
    mirrorDir: /home/ann/.cache/serin # default
    gitTimeout: 30s # default
    statusBranch:
      enabled: true # default
      name: serin/status/prod # default
      interval: 10s # default
    listen: "0.0.0.0:8080" # default
    log:
      format: auto # default
      level: info # default
    workers: 32 # default
    lease:
      enabled: true # default
      name: serin # default
      # namespace: that of the pod, or of the kubeconfig's context
    "#);
}

#[test]
fn every_flag_reaches_its_setting() {
    let sha = "0123456789012345678901234567890123456789";
    let loaded = good(
        &[
            "--repo=repo.git",
            "--commit",
            sha,
            "--path=/clusters//prod",
            "--cluster-name=blue",
            "--kubeconfig=k.yaml",
            "--context=blue-admin",
            "--poll-interval=1h30m",
            "--webhook-secret-file=hook",
            "--git-timeout=5s",
            "--mirror-dir=mirrors",
            "--author-name=Rollout Bot",
            "--author-email=bot@example.com",
            "--status-branch=observed",
            "--status-interval=1m",
            "--default-namespace=shop",
            "--allow-kind=*",
            "--allow-namespace=shop,tools",
            "--allow-namespace=extra",
            "--listen=none",
            "--log-format=json",
            "--log-level=serin=debug,kube=info",
            "--facade-image=reg/facade:1",
            "--framework-image=langchain=reg/lc:2",
            "--framework-image=custom=reg/c@sha256:00",
            "--workers=3",
            "--watch-namespace=shop,tools",
            "--watch-namespace=extra",
            "--lease-name=blue",
            "--lease-namespace=tools",
        ],
        None,
    );
    let settings = &loaded.settings;
    let [source] = &settings.sources[..] else { panic!("one source") };
    assert_eq!(source.repo.local_path(), Some(std::path::Path::new("/here/repo.git")));
    assert_eq!(source.revision, Revision::Commit(CommitSha::new(sha)));
    assert_eq!(source.path.as_str(), "clusters/prod");
    assert_eq!(source.poll_interval, Duration::from_secs(5400));
    assert_eq!(source.webhook, Some(WebhookSecret::File("/here/hook".into())));
    assert_eq!(source.kinds, [KindRule::Any]);
    assert_eq!(source.namespaces, Namespaces::Only(vec!["shop".into(), "tools".into(), "extra".into()]));
    assert_eq!((source.author.name.as_str(), source.author.email.as_str()), ("Rollout Bot", "bot@example.com"));
    assert_eq!(settings.mirror_dir, std::path::Path::new("/here/mirrors"));
    assert_eq!(settings.listen, None);
    assert_eq!(settings.images.frameworks["custom"], "reg/c@sha256:00");
    assert_eq!(
        settings.cluster,
        ClusterAccess::Kubernetes {
            kubeconfig: Some("/here/k.yaml".into()),
            context: Some("blue-admin".into()),
            namespaces: Namespaces::Only(vec!["shop".into(), "tools".into(), "extra".into()]),
        }
    );
    // Nothing is left at its default, so a flag that is forgotten on the way shows.
    let unset: Vec<_> =
        render_config(&loaded).lines().filter(|line| line.ends_with("# default")).map(str::to_owned).collect();
    assert_eq!(
        unset,
        [
            "simulate: false # default",
            "- name: default # default",
            "  enabled: true # default",
            "  enabled: true # default"
        ]
    );
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert_eq!(loaded.warnings[1], "the webhook of source default is not listened for");
    assert!(loaded.warnings[0].contains("cannot be written to"));
}

#[test]
fn a_file_holds_several_sources_with_common_defaults() {
    let loaded = good(&["--config", "etc/serin.yaml"], Some(TWO_SOURCES));
    let [agents, packs] = &loaded.settings.sources[..] else { panic!("two sources") };
    assert_eq!(agents.poll_interval, Duration::from_secs(120));
    assert_eq!(packs.poll_interval, Duration::from_secs(600));
    assert_eq!(agents.author.email, "serin@prod.invalid");
    assert_eq!(packs.author.email, "bot@example.com");
    // Relative to the file, not to the working folder.
    assert_eq!(packs.repo.as_str(), "/here/packs");
    assert!(agents.is_writable() && !packs.is_writable());
    assert_eq!(loaded.origins["sources[1].tag"].to_string(), "etc/serin.yaml:11:8");
}

#[test]
fn what_is_printed_is_a_file_that_means_the_same() {
    let with_token = TWO_SOURCES.replace("ann:secret@", "");
    let flags =
        ["--status-branch", "a b".replace(' ', "-").leak(), "--framework-image", "yes=reg/x:1", "--listen", "[::1]:9"];
    let loaded = good(&flags, Some(&with_token));
    let printed = render_config(&loaded);
    let again = good(&[], Some(&printed));
    assert_eq!(again.settings, loaded.settings, "{printed}");
}

#[test]
fn secrets_are_in_nothing_that_is_printed() {
    let loaded = good(&[], Some(TWO_SOURCES));
    let printed = render_config(&loaded);
    assert!(printed.contains("repo: \"https://ann:***@git.example.com/team/agents.git\""), "{printed}");
    assert!(!format!("{printed}{loaded:?}").contains("secret"));
    // The printed file says itself what is missing in it.
    let problems = bad(&[], Some(&printed));
    assert!(problems.contains("put the real one back"), "{problems}");
    for file in [
        "sources: [{name: a, repo: 'https://u:secret@'}]",
        "sources:\n- name: a\n  repo: https://u:secret@h/x\n  repo: https://u:secret@h/y",
        "sources:\n- name: a\n  repo: [https://u:secret@h/x]",
        "sources:\n- name: a\n  repo: \"https://u:secret@h/x",
        "sources:\n- name: a\n  repo: https://u:secret@h/x\n bad",
        "sources: {name: https://u:secret@h/x",
        "repo: https://u:secret@h/x: y",
    ] {
        let problems = bad(&["--cluster-name=c"], Some(file));
        assert!(!problems.contains("secret"), "{problems}");
    }
}

#[test]
fn all_problems_come_at_once_each_with_its_place() {
    let file = "\
clusterNam: prod
workers: none
statusBranch: {intervall: 5s, interval: 5}
sources:
- name: Prod
  repo: git@github.com:team/config.git
  brnach: main
  path: ../up
- repo: https://h/x
  branch: main
  tag: v1
  kinds: []
  namespaces: shop
";
    insta::assert_snapshot!(bad(&["--poll-interval", "5 minutes", "--listen", "8080"], Some(file)), @r#"
    15 problems in the settings
    --poll-interval: "5 minutes" is not a duration: the unit is none of ns, us, ms, s, m, h
    --listen: "8080" is not an address and a port
      hint: write for example 0.0.0.0:8080, [::]:8080, :8080 or none
    etc/serin.yaml:1:1: unknown field `clusterNam`
      hint: did you mean `clusterName`?
    etc/serin.yaml:2:10: "none" is not a whole number of 1 to 256
    etc/serin.yaml:3:16: unknown field `intervall`
      hint: did you mean `interval`?
    etc/serin.yaml:3:41: "5" is not a duration: a unit is missing; write ms, s, m or h behind the number
    etc/serin.yaml:5:9: "Prod" is not made of a-z, 0-9 and inner `-`, at most 63 of them
    etc/serin.yaml:6:9: git@github.com:team/config.git is reached by ssh, which needs a private key
      hint: say privateKeyFile, or dir with a file `identity`, in its credentials (--private-key-file, --credentials-dir)
    etc/serin.yaml:7:3: unknown field `brnach`
      hint: did you mean `branch`?
    etc/serin.yaml:8:9: "../up" leaves the repository with `..`
      hint: a path starts at the root of the repository
    etc/serin.yaml:9:3: a source needs `name`
    etc/serin.yaml:11:8: branch and tag are both given, and only one can be followed
    etc/serin.yaml:12:3: `kinds` is empty
      hint: leave it out for the default
    etc/serin.yaml:13:15: `namespaces` must be a list, this is a single value
    this cluster has no name
      hint: say --cluster-name; it names the status branch, so each cluster that shares a repository needs its own
    "#);
}

#[test]
fn a_setting_that_is_missing_is_named_with_the_way_to_give_it() {
    insta::assert_snapshot!(bad(&[], None), @"
    2 problems in the settings
    this cluster has no name
      hint: say --cluster-name; it names the status branch, so each cluster that shares a repository needs its own
    there is no repository to follow
      hint: say --repo, or --config with a file that has `sources`
    ");
}

#[test]
fn flags_win_over_variables_and_both_over_the_file() {
    let (mut args, log, _) = typed(&[]);
    args.branch = Some("from-variable".into());
    args.poll_interval = Some("3m".into());
    args.tag = Some(String::new());
    let variables = ["branch", "poll_interval", "tag"].map(|id| (id, clap::parser::ValueSource::EnvVariable));
    let file = "clusterName: c\nsources: [{name: a, repo: /r, commit: not-looked-at, pollInterval: 1m}]";
    let file = || Some(("f.yaml".to_owned(), file.to_owned()));
    let loaded = resolve(args.clone(), log.clone(), &TypedAs::of(&variables), &environment(), file()).unwrap();
    let source = &loaded.settings.sources[0];
    assert_eq!(source.revision, Revision::Branch(BranchName::new("from-variable")));
    assert_eq!(loaded.origins["sources[0].branch"].to_string(), "SERIN_BRANCH");
    assert_eq!(source.poll_interval, Duration::from_secs(180));

    args.tag = Some("v1".into());
    let mixed = [variables[0], ("tag", clap::parser::ValueSource::CommandLine)];
    let loaded = resolve(args, log, &TypedAs::of(&mixed), &environment(), file()).unwrap();
    assert_eq!(loaded.settings.sources[0].revision, Revision::Tag("v1".into()));
}

#[test]
fn the_log_level_is_ours_then_rust_logs_then_the_files() {
    let file = Some("clusterName: c\nsources: [{name: a, repo: /r}]\nlog: {level: warn}");
    assert_eq!(good(&[], file).settings.log.level, LogLevel::Warn);
    let (args, log, typed_as) = typed(&["--repo=/r", "--cluster-name=c"]);
    let environment = Environment { rust_log: Some("kube=trace".into()), ..environment() };
    let loaded = resolve(args, log, &typed_as, &environment, None).unwrap();
    assert_eq!(loaded.settings.log.level, LogLevel::Directives("kube=trace".into()));
    let (_, log, typed_as) = typed(&["--log-level=error"]);
    assert_eq!(resolve_log(log, &typed_as, &environment).unwrap().level, LogLevel::Error);
}

#[test]
fn one_flag_cannot_be_about_several_sources() {
    let problems = bad(&["--branch=main"], Some(TWO_SOURCES));
    assert!(problems.starts_with("--branch: --branch cannot tell which of the 2 sources"), "{problems}");
    // What every source may have can be overruled for all of them.
    let loaded = good(&["--poll-interval=7s"], Some(TWO_SOURCES));
    assert!(loaded.settings.sources.iter().all(|source| source.poll_interval == Duration::from_secs(7)));
}

#[test]
fn sources_that_collide_are_refused() {
    let file = |sources: &str| format!("clusterName: c\nsources: [{sources}]");
    for (sources, problem) in [
        ("{name: a, repo: /r}, {name: a, repo: /s}", "two sources of the name a"),
        ("{name: a, repo: /r}, {name: b, repo: /r/, path: x}", "hold the same files"),
        ("{name: a, repo: /r, path: x/y}, {name: b, repo: /r.git, path: x}", "hold the same files"),
        ("{name: a, repo: /r, branch: serin/status/c}", "is the branch that the source a follows"),
        ("{name: a, repo: /r, adoptFrom: [a]}", "serin.yaml:2:11: the source a adopts from itself"),
        ("{name: a, repo: /r, adoptFrom: [b]}, {name: b, repo: /s, adoptFrom: [a]}", "a and b adopt from each other"),
        ("{name: a, repo: /r, branch: serin}", "cannot hold the status branch"),
    ] {
        let problems = bad(&[], Some(&file(sources)));
        assert!(problems.contains(problem), "{problems}");
    }
    for sources in [
        "{name: a, repo: /r, path: x}, {name: b, repo: /r, path: xy}",
        "{name: a, repo: /r}, {name: b, repo: /r, branch: other}",
        "{name: a, repo: /r}, {name: b, repo: /s}",
    ] {
        good(&[], Some(&file(sources)));
    }
}

#[test]
fn the_secret_of_a_webhook_is_in_a_file_or_in_a_variable() {
    let file = |webhook: &str| format!("clusterName: c\nsources: [{{name: a, repo: /r, webhook: {webhook}}}]");
    let secret = |flags: &[&str], webhook: &str| good(flags, Some(&file(webhook))).settings.sources[0].webhook.clone();
    // Relative to the file, as all that it names.
    assert_eq!(secret(&[], "{secretFile: hook}"), Some(WebhookSecret::File("/here/etc/hook".into())));
    assert_eq!(secret(&[], "{secretEnv: HOOK}"), Some(WebhookSecret::Variable("HOOK".into())));
    assert_eq!(secret(&[], "{}"), None);
    // Flags win, whichever of the two they are.
    let flag = ["--webhook-secret-env=OTHER"];
    assert_eq!(secret(&flag, "{secretFile: hook}"), Some(WebhookSecret::Variable("OTHER".into())));
    let flag = ["--webhook-secret-file=/run/hook"];
    assert_eq!(secret(&flag, "{secretEnv: HOOK}"), Some(WebhookSecret::File("/run/hook".into())));

    let both = bad(&[], Some(&file("{secretFile: hook, secretEnv: HOOK}")));
    assert!(both.starts_with("etc/serin.yaml:2:70: a secret file and a variable are both given"), "{both}");
    let itself = bad(&[], Some(&file("{secretEnv: hunter-2}")));
    assert!(itself.contains("is not the name of an environment variable") && !itself.contains("hunter"), "{itself}");
    assert!(bad(&[], Some(&file("{secret: hunter}"))).contains("unknown field `secret`"));
    let which = bad(&["--webhook-secret-env=HOOK"], Some(TWO_SOURCES));
    assert!(which.contains("cannot tell which of the 2 sources"), "{which}");

    let loaded = good(
        &[],
        Some("clusterName: c\nsources: [{name: a, repo: /r, webhook: {secretEnv: HOOK}, adoptFrom: [b, c]}]"),
    );
    assert_eq!(loaded.settings.sources[0].adopt_from, ["b", "c"].map(SourceName::new));
    let printed = render_config(&loaded);
    assert!(printed.contains("  webhook:\n    secretEnv: HOOK #"), "{printed}");
    assert_eq!(good(&[], Some(&printed)).settings, loaded.settings);
}

#[test]
fn each_source_has_grants_of_its_own() {
    let file = "\
clusterName: c
defaults: {kinds: [ConfigMap]}
sources:
- {name: a, repo: /r, namespaces: [shop]}
- {name: b, repo: /s, kinds: ['*'], namespaces: [tools]}
";
    let loaded = good(&[], Some(file));
    let [a, b] = &loaded.settings.sources[..] else { panic!("two sources") };
    let grants = |source: &SourceSettings| {
        let kinds = [Kind::CONFIG_MAP, Kind::AGENT_RUNTIME].map(|kind| source.permits_kind(&kind));
        (kinds, ["shop", "tools"].map(|namespace| source.namespaces.permit(namespace)))
    };
    assert_eq!(grants(a), ([true, false], [true, false]));
    assert_eq!(grants(b), ([true, true], [false, true]));
}

#[test]
fn the_simulated_cluster_needs_no_name_and_knows_no_kubeconfig() {
    let loaded = good(&["--simulate", "--repo=/r"], None);
    assert_eq!(loaded.settings.cluster, ClusterAccess::Simulated);
    assert_eq!(loaded.settings.cluster_name.as_str(), "simulated");
    assert!(bad(&["--simulate", "--repo=/r", "--context=x"], None).contains("--context is about a real cluster"));
    let file = "kubernetes: {context: x}\nsources: [{name: a, repo: /r}]";
    assert_eq!(good(&["--simulate"], Some(file)).warnings.len(), 1);
    let simulated = format!("simulate: true\nclusterName: c\n{file}");
    assert!(matches!(
        good(&["--simulate=false"], Some(&simulated)).settings.cluster,
        ClusterAccess::Kubernetes { context: Some(_), .. }
    ));
}

#[test]
fn a_source_applies_to_watched_namespaces_only() {
    let flags = ["--repo=/r", "--cluster-name=c", "--watch-namespace=shop,tools"];
    let loaded = good(&flags, None);
    let watched = Namespaces::Only(vec!["shop".into(), "tools".into()]);
    assert_eq!(loaded.settings.sources[0].namespaces, watched);
    assert!(render_config(&loaded).contains("  namespaces: [shop, tools] # --watch-namespace"));
    let elsewhere = bad(&[&flags[..], &["--allow-namespace=shop,bank"]].concat(), None);
    assert!(elsewhere.contains("source default may apply to the namespace bank, which is not watched"), "{elsewhere}");
    let file = "clusterName: c\nkubernetes: {namespaces: [shop]}\nsources: [{name: a, repo: /r}]";
    assert_eq!(good(&[], Some(file)).settings.sources[0].namespaces, Namespaces::Only(vec!["shop".into()]));
}

#[test]
fn the_lease_is_one_for_the_cluster_or_that_of_the_watched_namespaces_and_can_be_switched_off() {
    let lease = |flags: &[&str], file| {
        let all = [&["--repo=/r", "--cluster-name=c"][..], flags].concat();
        good(&all, file).settings.lease.map(|lease| (lease.name, lease.namespace))
    };
    let named = |name: &str, namespace: Option<&str>| Some((name.to_owned(), namespace.map(str::to_owned)));
    assert_eq!(lease(&[], None), named("serin", None));
    assert_eq!(lease(&["--watch-namespace=shop,till"], None), named("serin", Some("shop")));
    let flags = ["--watch-namespace=shop", "--lease-name=a", "--lease-namespace=b"];
    assert_eq!(lease(&flags, None), named("a", Some("b")));
    assert_eq!(lease(&[], Some("lease: {name: a, namespace: b}")), named("a", Some("b")));
    assert_eq!(lease(&[], Some("lease: {enabled: false, name: a}")), None);
    assert_eq!(lease(&["--no-lease=false"], Some("lease: {enabled: false, name: a}")), named("a", None));
    assert_eq!(lease(&["--no-lease"], None), None);
    assert_eq!(lease(&["--no-lease"], Some("lease: {name: a}")), None);
    assert_eq!(good(&["--repo=/r", "--simulate", "--lease-name=a"], None).settings.lease, None);
    insta::assert_snapshot!(bad(&["--repo=/r", "--cluster-name=c", "--no-lease", "--lease-name=A"], None), @r#"
    2 problems in the settings
    --lease-name: "A" is not made of a-z, 0-9 and inner `-`, at most 63 of them
    --lease-name: --lease-name contradicts --no-lease
    "#);
}

#[test]
fn the_status_branch_can_be_switched_off_and_on() {
    let file = "clusterName: c\nsources: [{name: a, repo: /r}]\nstatusBranch: {enabled: false, name: x}";
    assert_eq!(good(&[], Some(file)).settings.status_branch, None);
    assert!(good(&["--no-status-branch=false"], Some(file)).settings.status_branch.is_some());
    let flags = ["--repo=/r", "--cluster-name=c", "--no-status-branch"];
    assert_eq!(good(&flags, None).settings.status_branch, None);
    let both = [&flags[..], &["--status-branch=x"]].concat();
    assert!(bad(&both, None).contains("contradicts"));
}

#[test]
fn what_is_allowed_but_may_not_be_meant_is_a_warning() {
    let file = "\
clusterName: c
sources:
- {name: a, repo: 'http://u:p@h/x', namespaces: [shop]}
- {name: b, repo: /r, commit: 1111111111111111111111111111111111111111}
";
    insta::assert_snapshot!(good(&[], Some(file)).warnings.join("\n"), @"
    source a sends its password or token unencrypted to http://h/x
    source a may not apply to its default namespace default: objects that name none are refused
    source b follows the commit 1111111111, which cannot be written to: promotions wait at their last step, and decisions are only reported
    ");
}

#[test]
fn odd_files_are_understood_or_refused() {
    let sources = "clusterName: c\nsources: [{name: a, repo: /r, path: null}]\n";
    good(&[], Some(&format!("\u{feff}# settings\n---\n{sources}...\n")));
    for (file, problem) in [
        (format!("{sources}---\nx: y\n"), "f.yaml:3:1: a second document"),
        ("- a\n".into(), "f.yaml:1:1: the settings must be a mapping, this is a list"),
        ("a: *b\n".into(), "this is not YAML"),
        ("sources: [&a {name: a}, *a]".into(), "anchors and aliases are not supported"),
        ("clusterName: {x: y}".into(), "`clusterName` must be a single value, this is a mapping"),
        ("workers: 1\nworkers: 2".into(), "f.yaml:2:1: `workers` is already set at f.yaml:1:1"),
        ("a: b: c".into(), "this is not YAML"),
        (format!("{}x{}", "[".repeat(40), "]".repeat(40)), "nested too deeply"),
    ] {
        let (args, log, typed) = typed(&[]);
        let problems = resolve(args, log, &typed, &environment(), Some(("f.yaml".into(), file.clone()))).unwrap_err();
        assert!(problems.to_string().contains(problem), "{file}: {problems}");
    }
}

impl TypedAs {
    fn of(sources: &[(&str, clap::parser::ValueSource)]) -> Self {
        Self::from_map(sources.iter().map(|(id, source)| ((*id).to_owned(), *source)).collect::<BTreeMap<_, _>>())
    }
}
