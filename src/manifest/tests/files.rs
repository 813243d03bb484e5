//! Files that are not what they should be.

use super::*;
use crate::manifest::is_manifest;

#[test]
fn only_files_that_look_like_manifests_are_read() {
    for (path, expected) in [
        ("a.yaml", true),
        ("clusters/prod/a.yml", true),
        ("a.json", true),
        ("A.YAML", true),
        ("README.md", false),
        ("a.yaml.bak", false),
        ("yaml", false),
        (".yaml", false),
        (".yamllint.yaml", false),
        (".github/workflows/ci.yaml", false),
        (".deploy/a.yaml", true),
        ("templates/a.tpl", false),
    ] {
        assert_eq!(is_manifest(&TreePath::new(path)), expected, "{path}");
    }
    let file = load_with("README.md", b"\xff: not looked at", &Rules::default());
    assert_eq!(assemble([&file]), Desired::default());
}

#[test]
fn broken_yaml_is_shown_with_its_line_and_leaves_the_other_documents_alone() {
    let text = format!(
        "{AGENT}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: 'broken\n---\n{}",
        AGENT.replace("support-agent", "other")
    );
    let desired = desired(&text);
    assert_eq!(summary(&desired).0, ["AgentRuntime production/other", "AgentRuntime production/support-agent"]);
    assert_eq!(desired.unreadable, [TreePath::new("agent.yaml")]);
    assert!(!desired.allows_pruning());
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:14:9: this is not YAML: unclosed quote
      14 |   name: 'broken
         |         ^
    ");
}

#[test]
fn every_way_to_break_yaml_is_told_with_what_to_do() {
    let broken = [
        "a:\n\tb: 1\n",
        "a: b: c\n",
        "a:\n  - b\n c: d\n",
        "a: *x\n",
        "a: &a [*a]\n",
        "a: .inf\n",
        "a: @x\n",
        "a: {b: 1\n",
        "image: {{ .Values.image }}\n",
        "name: {{ .Release.Name }}-x\n",
        "? [a, b]\n: c\n",
        "~: a\n",
        "- a\n",
        "just words\n",
    ];
    let told: Vec<String> = broken.iter().map(|text| problems(text)).collect();
    insta::assert_snapshot!(told.join("\n\n"), @r#"
    agent.yaml:2:2: YAML is indented with blanks, and this line begins with a tab
      2 |  b: 1
        |  ^
      hint: replace the tab by blanks

    agent.yaml:1:5: this is not YAML: mapping values are not allowed in this context
      1 | a: b: c
        |     ^

    agent.yaml:3:2: this is not YAML: while parsing a block mapping, did not find expected key
      3 |  c: d
        |  ^

    agent.yaml:1:4: this alias has no anchor in its document
      1 | a: *x
        |    ^
      hint: anchors end with their document, at `---`

    agent.yaml:1:8: this alias stands inside the value that it stands for
      1 | a: &a [*a]
        |        ^

    agent.yaml:1:4: ".inf" has no place in JSON
      1 | a: .inf
        |    ^^^^
      hint: write it in quotes if it is meant as text

    agent.yaml:1:4: this is not YAML: unexpected character: `@'
      1 | a: @x
        |    ^^

    agent.yaml:1:4: this is not YAML: unclosed bracket '{'
      1 | a: {b: 1
        |    ^

    agent.yaml:1:9: this is a template, not YAML
      1 | image: {{ .Values.image }}
        |         ^
      hint: Serin reads rendered manifests; a text with {{ in it needs quotes

    agent.yaml:1:8: this is a template, not YAML
      1 | name: {{ .Release.Name }}-x
        |        ^
      hint: Serin reads rendered manifests; a text with {{ in it needs quotes

    agent.yaml:1:3: a key must be a text
      1 | ? [a, b]
        |   ^

    agent.yaml:1:1: a key must be a text
      1 | ~: a
        | ^

    agent.yaml:1:1: a Kubernetes object is a mapping, found a list
      1 | - a
        | ^^^

    agent.yaml:1:1: a Kubernetes object is a mapping, found the text "just words"
      1 | just words
        | ^^^^^^^^^^
    "#);
}

#[test]
fn what_is_no_kubernetes_object_is_told_and_stops_pruning() {
    let text = "replicas: 3\n---\nkind: ConfigMap\n---\napiVersion: v1\nkind: 5\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { generateName: x- }\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: 5 }\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: My_Map }\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: x\n";
    insta::assert_snapshot!(problems(text), @r#"
    agent.yaml:1:1: this is no Kubernetes object: `apiVersion` and `kind` are missing
      1 | replicas: 3
        | ^^^^^^^^
      hint: every .yaml, .yml and .json file under the path of the source is taken for manifests
    agent.yaml:3:1: this is no Kubernetes object: `apiVersion` is missing
      3 | kind: ConfigMap
        | ^^^^
      hint: every .yaml, .yml and .json file under the path of the source is taken for manifests
    agent.yaml:6:7: kind: kind must be a text that is not empty
      6 | kind: 5
        |       ^
      hint: every .yaml, .yml and .json file under the path of the source is taken for manifests
    agent.yaml:8:1: metadata.name: this field is required
      8 | apiVersion: v1
        | ^^^^^^^^^^
    agent.yaml:13:27: metadata.generateName: an object in git needs a name of its own, or every sync would make another one
      13 | metadata: { generateName: x- }
         |                           ^^
      hint: use `name`
    agent.yaml:17:19: metadata.name: expected a text, found the number 5
      17 | metadata: { name: 5 }
         |                   ^
      hint: write it in quotes: "5"
    agent.yaml:21:19: metadata.name: "My_Map" is no name: it may have only lower-case letters, digits, - and ., and begins and ends with a letter or digit
      21 | metadata: { name: My_Map }
         |                   ^^^^^^
    agent.yaml:25:11: metadata: expected a mapping, found the text "x"
      25 | metadata: x
         |           ^
    "#);
    assert!(!desired(text).allows_pruning());
}

#[test]
fn a_kustomization_is_refused_with_a_sentence() {
    let text = b"resources: [agent.yaml]\n";
    let file = load_with("clusters/prod/kustomization.yaml", text, &Rules::default());
    let typed =
        load_with("x.yaml", b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", &Rules::default());
    let desired = assemble([&file, &typed]);
    insta::assert_snapshot!(render(&desired), @r"
    clusters/prod/kustomization.yaml:1:1: this is a kustomization, and Serin needs rendered manifests
      1 | resources: [agent.yaml]
        | ^^^^^^^^^
      hint: commit the output of `kustomize build`, and point the path of the source to it
    x.yaml:2:7: this is a kustomization, and Serin needs rendered manifests
      2 | kind: Kustomization
        |       ^^^^^^^^^^^^^
      hint: commit the output of `kustomize build`, and point the path of the source to it
    ");
    assert_eq!(desired.unreadable.len(), 2);
}

#[test]
fn files_that_are_no_text_are_told_from_files_that_are_too_large() {
    let rules = Rules { max_file_bytes: 30, ..Rules::default() };
    let files = [
        load_with("large.yaml", &[b'a'; 31], &rules),
        load_with("latin.yaml", b"a: 1\nb: gr\xfc\xdfe\n", &rules),
        load_with("utf16.yaml", b"\xff\xfea\0:\0", &rules),
        load_with("lfs.yaml", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", &Rules::default()),
    ];
    let desired = assemble(&files);
    assert_eq!(desired.unreadable.len(), 4);
    insta::assert_snapshot!(render(&desired), @r"
    large.yaml:1:1: the file has more than 30 bytes and is not read
      hint: split it
    latin.yaml:2:6: the file is not UTF-8
      2 | b: gr
        |      ^
      hint: save it as UTF-8
    lfs.yaml:1:1: this is a pointer to a file kept in Git LFS, not the file itself
      1 | version https://git-lfs.github.com/spec/v1
        | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: manifests are small: commit them without LFS
    utf16.yaml:1:1: the file is not UTF-8
      hint: it looks like UTF-16: save it as UTF-8
    ");
}

#[test]
fn a_yaml_bomb_is_refused_and_leaves_the_other_documents_alone() {
    let lines = (1..12).map(|i| {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        format!("a{i}: &a{i} [{aliases}]\n")
    });
    let bomb = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}", lines.collect::<String>());
    let desired = desired(&format!("{bomb}---\n{AGENT}"));
    assert_eq!(summary(&desired).0, ["AgentRuntime production/support-agent"]);
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:1:22: this document is too large once its aliases are written out
      1 | a0: &a0 [x, x, x, x, x, x, x, x, x, x]
        |                      ^
      hint: split it, or write fewer aliases
    ");
}

#[test]
fn a_long_text_behind_many_aliases_is_refused() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 1000].join(", "));
    let desired = desired(&text);
    assert_eq!(desired.problems.len(), 1);
    assert!(desired.problems[0].message.starts_with("this document is too large once its aliases are written out"));
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        let desired = desired(&text);
        assert!(!desired.is_clean());
        assert!(!desired.allows_pruning());
    }
}

#[test]
fn too_many_documents_are_refused() {
    let desired = desired(&"---\na: 1\n".repeat(20_001));
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:1:1: the file has 20001 documents and may have 20000
      1 | ---
        | ^^^
      hint: split it
    ");
}

#[test]
fn an_object_that_no_cluster_would_take_is_held() {
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: big }}\ndata:\n  a: {}\n", "x".repeat(1_600_000));
    let desired = desired(&text);
    assert_eq!(summary(&desired), (vec![], vec!["ConfigMap default/big".to_owned()]));
    insta::assert_snapshot!(render(&desired), @r"
    agent.yaml:1:1: the object has more than 1600071 bytes, and a cluster takes 1572864
      1 | apiVersion: v1
        | ^^^^^^^^^^
      hint: split it
    ");
}

#[test]
fn a_hostile_file_costs_no_more_than_its_size() {
    // Each of these was made to hit something that compares everything with everything.
    let many = |item: &dyn Fn(usize) -> String| (0..4_000).map(item).collect::<String>();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: x }\n";
    for text in [
        format!("{AGENT}  rollout:\n    steps: []\n{}", many(&|i| format!("    k{i}: 1\n"))),
        format!("{map}data:\n{}binaryData:\n{}", many(&|i| format!("  k{i}: a\n")), many(&|i| format!("  k{i}: a\n"))),
        format!("{map}x: [{}]\n", many(&|_| "y, tRue, 0X1, ".to_owned())),
        format!("{map}data: {{ {} }}\n", many(&|i| format!("\"a{i} b\": 1, "))),
        "---\na: 1\n".repeat(3_000),
    ] {
        let desired = desired(&text);
        assert!(desired.objects.is_empty());
        assert!(desired.problems.len() <= 1_001, "{}", desired.problems.len());
        assert!(!desired.is_clean());
    }
}

#[test]
fn a_secret_is_never_quoted() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\nstringData: { password: hunter2 }\n---\nkind: Secret\nstringData: { password: 'hunter2 }\n";
    let told = problems(text);
    assert!(!told.contains("hunter2"), "{told}");
    // Other objects that mention one are shown.
    let told = problems(&AGENT.replace("replicas: 4", "replicas: x, storeRef: { kind: SecretRef }"));
    assert!(told.contains("storeRef"), "{told}");
}

#[test]
fn a_secret_is_not_quoted_where_its_file_cannot_be_read() {
    let block = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\nstringData:\n  password: hunter2";
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("broken.json", b"{\"kind\": \"Secret\", \"data\": {\"password\": hunter2}}".to_vec()),
        ("lines.json", b"{\"kind\":\n\"Secret\",\n\"data\": {\"password\": hunter2}}".to_vec()),
        ("latin.yaml", [block.as_bytes(), b"\xfc\n"].concat()),
        ("kind-behind.yaml", b"stringData:\n  password: hunter2\xfc\nkind: Secret\n".to_vec()),
        ("anchor.yaml", b"kind: &k Secret\nstringData: { password: 'hunter2 }\n".to_vec()),
        ("alias.yaml", b"x: &k Secret\nkind: *k\nstringData: { password: 'hunter2 }\n".to_vec()),
        ("tag.yaml", b"kind: !!str Secret\nstringData: { password: 'hunter2 }\n".to_vec()),
        ("next-line.yaml", b"kind:\n  Secret\nstringData: { password: 'hunter2 }\n".to_vec()),
        ("cr.yaml", b"kind: Secret\rstringData: { password: 'hunter2 }\r".to_vec()),
        ("escape.yaml", b"kind: \"\\x53ecret\"\nstringData: { password: hunter2, password: x }\n".to_vec()),
        ("parted.yaml", format!("{block}\n---\n  more: 'hunter2\n").into_bytes()),
        ("parted-text.yaml", format!("{block}\n---\n  hunter2\n").into_bytes()),
        ("parted-keys.yaml", format!("{block}\n---\n{{ more: hunter2 }}\n").into_bytes()),
        ("many.yaml", format!("{block}\n{}", "---\npassword: hunter2\n".repeat(20_001)).into_bytes()),
        ("nul.yaml", block.bytes().flat_map(|byte| [0, byte]).collect()),
    ];
    for (path, bytes) in files {
        let told = render(&assemble([&load_with(path, &bytes, &Rules::default())]));
        assert!(!told.is_empty(), "{path}");
        assert!(!told.replace('\0', "").contains("hunter2") && !told.contains(" | "), "{path}: {told}");
    }
}

#[test]
fn what_stands_beside_a_secret_in_its_file_is_quoted() {
    let text = format!("kind: Secret\napiVersion: v1\nmetadata: {{ name: s }}\n---\n{}", AGENT.replace("4 }", "x }"));
    let told = problems(&text);
    assert!(told.contains("| "), "{told}");
}

#[test]
fn no_input_panics() {
    let seeds = [AGENT, "a: &x {b: [1, *x]}\n", "--- |\n  x\n...\n%TAG ! x\n---\n", "{\"a\": [1, {\"b\": null}]}"];
    for seed in seeds {
        for cut in (0..seed.len()).step_by(5) {
            for insert in ["", "\"", "'", "{", "]", ":", "\n", "\t", "- ", "&a", "*a", "\u{0}", "\u{feff}", "---\n"] {
                let text = format!("{}{insert}{}", &seed[..cut], &seed[cut..]);
                load_with("a.yaml", text.as_bytes(), &Rules::default());
                load_with("a.json", text.as_bytes(), &Rules::default());
            }
        }
    }
}
