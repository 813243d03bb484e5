//! What people and pods do in one run: made from the seed, so that a run can be told again.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};
use serin::cluster::simulated::Sequence;
use serin::git::simulated::{Person, SimulatedRepository};
use serin::ids::{BranchName, CommitSha, TreePath};

/// Versions of the pack that people try. The pods of those from 3 on never become ready.
const VERSIONS: [&str; 6] = ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "3.0.0", "3.1.0"];

/// Whether pods with this version ever become ready.
pub(super) fn is_good(version: &str) -> bool {
    !version.starts_with('3')
}

/// The agent as people want it, and how they write it down.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) version: String,
    pub(super) candidate: Option<String>,
    pub(super) replicas: u64,
    pub(super) steps: Vec<Value>,
    pub(super) is_routed: bool,
    pub(super) is_automatic: bool,
    pub(super) cooldown: &'static str,
    pub(super) note: u64,
}

impl Wish {
    pub(super) fn first(dice: &mut Sequence) -> Self {
        Self {
            version: "1.0.0".into(),
            candidate: None,
            replicas: [1, 2, 3, 4, 5, 10][pick(dice, 6)],
            steps: steps(dice),
            is_routed: !dice.is_in_percent(20),
            is_automatic: dice.is_in_percent(60),
            cooldown: ["0s", "30s", "5m"][pick(dice, 3)],
            note: 0,
        }
    }

    fn manifest(&self) -> String {
        let steps: String = self.steps.iter().map(|step| format!("      - {step}\n")).collect();
        let candidate = self.candidate.as_ref().map_or_else(String::new, |version| {
            format!("    candidate:\n      promptPackRef:\n        name: pack # theirs\n        version: {version}\n")
        });
        let routing = if self.is_routed { "    trafficRouting: {}\n" } else { "" };
        let mode = if self.is_automatic { "automatic" } else { "manual" };
        format!(
            "# note {}\napiVersion: omnia.altairalabs.ai/v1alpha1\nkind: AgentRuntime\nmetadata:\n  name: agent\n  namespace: prod\n  \
             annotations: {{serin.dev/progress-deadline: 2m}}\nspec:\n  facades: [{{type: websocket}}]\n  promptPackRef:\n    \
             name: pack\n    version: {}\n  runtime:\n    replicas: {}\n  rollout:\n{candidate}{routing}    rollback:\n      \
             mode: {mode}\n      cooldown: {}\n    steps:\n{steps}",
            self.note, self.version, self.replicas, self.cooldown,
        )
    }
}

pub(super) fn pick(dice: &mut Sequence, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).unwrap()
}

fn steps(dice: &mut Sequence) -> Vec<Value> {
    let mut steps = Vec::new();
    for _ in 0..=dice.below(3) {
        let weight = [0, 10, 25, 50, 75, 100][pick(dice, 6)];
        steps.push(json!({"setWeight": weight}));
        let duration = ["10s", "1m", "5m"][pick(dice, 3)];
        match dice.below(8) {
            0..4 => steps.push(json!({"pause": {"duration": duration}})),
            4 => steps.push(json!({"pause": {}})),
            _ => {}
        }
    }
    if dice.is_in_percent(70) {
        steps.push(json!({"setWeight": 100}));
    }
    steps
}

/// The person and what they have done.
pub(super) struct People {
    person: Person,
    branch: BranchName,
    /// Their own commits; all must stay on the branch, unless they force it.
    pub(super) commits: Vec<CommitSha>,
    /// How often they have touched the candidate: what lets a rejected one start again.
    pub(super) candidate_touches: u64,
    /// Whether they rewrote the history of the branch.
    pub(super) has_forced: bool,
}

impl People {
    pub(super) fn new(repository: &SimulatedRepository, branch: BranchName, wish: &Wish) -> Self {
        let person = repository.person("A Person");
        let mut people = Self { person, branch, commits: Vec::new(), candidate_touches: 0, has_forced: false };
        let mut files: BTreeMap<TreePath, Option<Vec<u8>>> = VERSIONS
            .iter()
            .map(|version| {
                let text = format!(
                    "apiVersion: omnia.altairalabs.ai/v1alpha1\nkind: PromptPack\nmetadata: {{name: pack-{0}, namespace: prod}}\n\
                     spec: {{packName: pack, version: {version}, source: {{type: configmap, configMapRef: {{name: content-{0}}}}}}}\n",
                    version.replace('.', "-")
                );
                (TreePath::new(format!("prod/pack-{version}.yaml")), Some(text.into_bytes()))
            })
            .collect();
        files.insert(TreePath::new("prod/agent.yaml"), Some(wish.manifest().into_bytes()));
        let commit = people.person.commit(&people.branch, files, "begin");
        people.commits.push(commit);
        people
    }

    /// They push a candidate that is not what runs. Says which.
    pub(super) fn try_something(
        &mut self,
        dice: &mut Sequence,
        repository: &SimulatedRepository,
        wish: &mut Wish,
    ) -> String {
        let Some(mut now) = read_back(repository, &self.branch, wish) else {
            return "nothing: the file is gone".into();
        };
        let others: Vec<&str> = VERSIONS.into_iter().filter(|version| *version != now.version).collect();
        now.note += 1;
        now.candidate = Some(others[pick(dice, others.len())].to_owned());
        self.candidate_touches += 1;
        self.commits.push(self.person.write(&self.branch, "prod/agent.yaml", &now.manifest()));
        *wish = now;
        format!("candidate {:?}", wish.candidate)
    }

    /// They read the branch, change one thing, and push. Says what.
    pub(super) fn act(&mut self, dice: &mut Sequence, repository: &SimulatedRepository, wish: &mut Wish) -> String {
        let Some(mut now) = read_back(repository, &self.branch, wish) else {
            return "nothing: the file is gone".into();
        };
        now.note += 1;
        let what = match dice.below(12) {
            0..5 => {
                now.candidate = Some(VERSIONS[pick(dice, VERSIONS.len())].to_owned());
                self.candidate_touches += 1;
                format!("candidate {:?}", now.candidate)
            }
            5 => {
                now.candidate = None;
                self.candidate_touches += 1;
                "remove the candidate".to_owned()
            }
            6 => {
                now.steps = steps(dice);
                format!("steps {:?}", Value::from(now.steps.clone()).to_string())
            }
            7 => {
                now.replicas = [1, 2, 4, 7][pick(dice, 4)];
                format!("replicas {}", now.replicas)
            }
            8 => {
                now.is_routed = !now.is_routed;
                format!("routed {}", now.is_routed)
            }
            9 => match now.candidate.clone().filter(|version| is_good(version)) {
                Some(version) => {
                    now.version = version;
                    "the spec to the candidate's version".to_owned()
                }
                None => "a comment".to_owned(),
            },
            10 => {
                let log = repository.log(&self.branch);
                let target = &log[pick(dice, log.len().min(3))];
                if target.parent.is_some()
                    && let Ok(commit) = self.person.revert(&self.branch, &target.sha)
                {
                    self.candidate_touches += 1;
                    self.commits.push(commit);
                    *wish = read_back(repository, &self.branch, wish).unwrap_or_else(|| wish.clone());
                    return format!("revert {:?}", target.message.lines().next().unwrap_or_default());
                }
                "a comment".to_owned()
            }
            _ => "a comment".to_owned(),
        };
        self.commits.push(self.person.write(&self.branch, "prod/agent.yaml", &now.manifest()));
        *wish = now;
        what
    }
}

/// The wish as the branch says it: Serin has written to it too.
pub(super) fn read_back(repository: &SimulatedRepository, branch: &BranchName, before: &Wish) -> Option<Wish> {
    let tip = repository.tip(branch)?;
    let files = repository.files(&tip);
    let text = String::from_utf8(files.get(&TreePath::new("prod/agent.yaml"))?.to_vec()).ok()?;
    let versions: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("version: ")).collect();
    let has_candidate = text.contains("    candidate:");
    let value = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::to_owned);
    let steps = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("      - ")?).ok()).collect();
    Some(Wish {
        version: (*versions.first()?).to_owned(),
        candidate: if has_candidate { versions.get(1).map(|version| (*version).to_owned()) } else { None },
        replicas: value("replicas: ")?.parse().ok()?,
        steps,
        is_routed: text.contains("trafficRouting"),
        is_automatic: value("mode: ")?.as_str() == "automatic",
        cooldown: before.cooldown,
        note: before.note,
    })
}

/// How long a pod takes to become ready in this run.
pub(super) fn startup(dice: &mut Sequence) -> SignedDuration {
    SignedDuration::from_secs([0, 1, 5, 20][pick(dice, 4)])
}
