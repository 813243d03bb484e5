//! Several sources in one daemon: each keeps to what is granted to it, and to what is its own.

use serde_json::Value;

use crate::support::site::Site;

fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{key: {value}}}\n"
    )
}

/// Two repositories and two namespaces; the daemon is that of the first.
struct Two {
    a: Site,
    b: Site,
}

impl Two {
    async fn empty() -> Self {
        let (a, b) = (Site::empty().await, Site::empty().await);
        Self { a, b }
    }

    /// The settings, with the sources in this order; `extra` is more about the source `b`.
    fn settings(&self, order: &[&str], extra: &str) -> String {
        let (a, b) = (&self.a, &self.b);
        let mut lines = vec![format!("kubernetes: {{namespaces: [{}, {}]}}\nsources:\n", a.namespace, b.namespace)];
        lines.extend(order.iter().map(|name| match *name {
            "a" => format!("- {{name: a, repo: '{}', path: clusters/a, namespaces: [{}]}}\n", a.repo(), a.namespace),
            other => format!(
                "- {{name: {other}, repo: '{}', path: b, kinds: [ConfigMap], namespaces: [{}, {}]{extra}}}\n",
                b.repo(),
                a.namespace,
                b.namespace
            ),
        }));
        lines.concat()
    }

    /// The value in a ConfigMap, the source that it belongs to, and its uid.
    async fn map(&self, site: &Site, name: &str) -> Option<(String, String, String)> {
        let map = site.get("configmaps", name).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tracking = text(&map["metadata"]["annotations"]["serin.dev/tracking"]);
        let source = tracking.split_once(':').map(|(source, _)| source.to_owned()).unwrap_or_default();
        Some((text(&map["data"]["key"]), source, text(&map["metadata"]["uid"])))
    }

    async fn until_map(&self, site: &Site, name: &str, value: &str, source: &str) -> String {
        self.a
            .eventually(&format!("{name} is {value} by {source}"), || async {
                let (found, owner, uid) = self.map(site, name).await?;
                (found == value && owner == source).then_some(uid)
            })
            .await
    }

    async fn until_logged(&self, text: &str) {
        self.a.until(&format!("the log says: {text}"), || async { self.a.log().contains(text) }).await;
    }
}

#[tokio::test]
async fn two_sources_keep_to_their_grants_and_the_second_to_claim_an_object_is_refused_by_name() {
    let two = Two::empty().await;
    let (here, there) = (two.a.namespace.clone(), two.b.namespace.clone());
    two.a.clone.write("clusters/a/shared.yaml", &config_map(&here, "shared", "a"));
    two.a.clone.write("clusters/a/not-granted.yaml", &config_map(&there, "stray", "a"));
    two.a.clone.write("elsewhere/map.yaml", &config_map(&here, "elsewhere", "a"));
    two.a.clone.commit("a");
    two.a.clone.push();
    two.b.clone.write("b/shared.yaml", &config_map(&here, "shared", "b"));
    two.b.clone.write("b/own.yaml", &config_map(&there, "own", "b"));
    let agent = crate::support::manifests::Manifest::new(&["100"]).render(&here);
    two.b.clone.write("b/agent.yaml", &agent);
    two.b.clone.commit("b");
    two.b.clone.push();

    two.a.start_with_settings(&two.settings(&["a", "b"], "")).await;
    let shared = two.until_map(&two.a, "shared", "a", "a").await;
    two.until_map(&two.b, "own", "b", "b").await;
    let owned = format!("ConfigMap {here}/shared belongs to the source a: remove it from one of the two");
    two.until_logged(&owned).await;
    assert_eq!(two.map(&two.a, "elsewhere").await, None);
    assert_eq!(two.map(&two.b, "stray").await, None);
    assert!(two.a.list("agentruntimes").await.is_empty());
    let counted = r#"serin_source_objects{source="b",state="not_owned"} 1"#;
    two.a.until("it is counted", || async { two.a.http("/metrics").is_some_and(|told| told.contains(counted)) }).await;

    // The cluster says whose it is, not the order of the settings.
    two.a.kill();
    two.a.start_with_settings(&two.settings(&["b", "a"], "")).await;
    two.b.clone.write("b/own.yaml", &config_map(&there, "own", "later"));
    two.b.clone.commit("later");
    two.b.clone.push();
    two.a.announce();
    two.until_map(&two.b, "own", "later", "b").await;
    assert_eq!(two.map(&two.a, "shared").await.unwrap(), ("a".into(), "a".into(), shared.clone()));

    // Gone from the owner, it does not move by itself, and it is not gone for a moment either.
    std::fs::remove_file(two.a.clone.path("clusters/a/shared.yaml")).unwrap();
    two.a.clone.push_file("clusters/a/other.yaml", &config_map(&here, "other", "a"), "without shared");
    two.a.announce();
    two.until_map(&two.a, "other", "a", "a").await;
    two.until_logged("belongs to the source a, which holds it no more").await;
    assert_eq!(two.map(&two.a, "shared").await.unwrap(), ("a".into(), "a".into(), shared.clone()));

    // Where the settings say so, it does.
    two.a.kill();
    two.a.start_with_settings(&two.settings(&["b", "a"], ", adoptFrom: [a]")).await;
    assert_eq!(two.until_map(&two.a, "shared", "b", "b").await, shared);
    assert_eq!(two.map(&two.a, "other").await.unwrap().1, "a");
}

#[tokio::test]
async fn a_source_that_is_renamed_takes_its_objects_along_and_one_that_is_removed_leaves_them() {
    let two = Two::empty().await;
    let there = two.b.namespace.clone();
    two.b.clone.write("b/one.yaml", &config_map(&there, "one", "b"));
    two.b.clone.write("b/two.yaml", &config_map(&there, "two", "b"));
    two.b.clone.commit("two maps");
    two.b.clone.push();
    two.a.clone.push_file("clusters/a/mine.yaml", &config_map(&two.a.namespace, "mine", "a"), "mine");
    two.a.start_with_settings(&two.settings(&["a", "b"], "")).await;
    let one = two.until_map(&two.b, "one", "b", "b").await;
    two.until_map(&two.b, "two", "b", "b").await;
    two.until_map(&two.a, "mine", "a", "a").await;

    // Renamed without a word: everything stays, and the log says what to do.
    std::fs::remove_file(two.b.clone.path("b/two.yaml")).unwrap();
    two.b.clone.commit("one map");
    two.b.clone.push();
    two.a.kill();
    two.a.start_with_settings(&two.settings(&["renamed"], "")).await;
    let hint = "belongs to the source b, which is not in the settings: with `adoptFrom: [b]`, renamed takes it over";
    two.until_logged(hint).await;
    let mine = format!("its objects stay as they are: ConfigMap {}/mine", two.a.namespace);
    two.until_logged(&mine).await;
    assert_eq!(two.map(&two.b, "one").await.unwrap(), ("b".into(), "b".into(), one.clone()));

    two.a.kill();
    two.a.start_with_settings(&two.settings(&["renamed"], ", adoptFrom: [b]")).await;
    assert_eq!(two.until_map(&two.b, "one", "b", "renamed").await, one);
    assert!(two.map(&two.b, "two").await.is_some() && two.map(&two.a, "mine").await.is_some());
}
