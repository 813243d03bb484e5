//! `serin check`: holds manifests to everything that the daemon holds them to, before they are pushed.
//!
//! No cluster, no network, no commit: the files of a working tree go through the same loader with the same rules. Where
//! the daemon would go on with what is right, this ends with 1, so that a pull request stops.

mod github;
mod json;
mod sarif;
#[cfg(test)]
mod tests;
mod text;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::cli::exit::{ExitStatus, Failure};
use crate::cli::output::{has_color_on_stdout, print_note, print_result};
use crate::git::working_tree::{Listing, WorkingTree, WorkingTreeError, read_file};
use crate::manifest::{Diagnostic, Intake, LoadedFile, Rules, Schemas, Severity, assemble, is_manifest, load_file};
use crate::reconcile::serve::rules;
use crate::settings::{
    Environment, GrantArgs, LogArgs, NO_CLUSTER_NAME, Origin, Problem, Problems, RunArgs, SourceSettings, TypedAs,
    load_without_credentials,
};

/// Flags of `serin check`. Those about the source are the same as those of `serin run`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Files and folders [default: the folder of the source, or the working folder]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Form of the output: text, json, sarif or github (annotations of a workflow)
    #[arg(short, long, value_enum, default_value_t = OutputForm::Text, hide_possible_values = true, value_name = "FORM")]
    pub output: OutputForm,

    /// Settings file of serin run: kinds, namespaces and folder are those of its source
    #[arg(long, value_name = "FILE", env = "SERIN_CONFIG", help_heading = "Source")]
    pub config: Option<String>,

    /// Source of the settings file, where it has several
    #[arg(long, value_name = "NAME", requires = "config", help_heading = "Source")]
    pub source: Option<String>,

    #[command(flatten)]
    #[doc = "What may be applied."]
    pub grants: GrantArgs,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people
    Text,
    /// One object, for programs
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
}

/// What was found in so many files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Everything that is wrong, by file and place.
    pub findings: Vec<Diagnostic>,
    /// How many manifests were looked at.
    pub files: usize,
    /// How many objects they hold, usable or not.
    pub objects: usize,
}

impl Report {
    /// How many findings are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Checks the files, prints what was found, and ends with 1 if that is anything.
///
/// # Errors
/// If the settings are wrong, a path is not there or cannot be read, or there are no manifests.
pub fn run(args: CheckArgs, typed: &TypedAs, environment: &Environment) -> Result<ExitStatus, Failure> {
    let (paths, output) = (args.paths.clone(), args.output);
    let source = resolve_source(args, typed, environment)?;
    let here = &environment.current_dir;
    let tree = WorkingTree::around(here).map_err(unreadable)?;
    let (rules, folder) = match &source {
        Source::Flags(rules) => (rules, here.clone()),
        Source::Settings(rules, folder) => (rules, tree.root().join(folder)),
    };
    let paths = if paths.is_empty() { vec![folder] } else { paths.iter().map(|path| here.join(path)).collect() };
    let report = check(&tree, &paths, rules)?;
    let text = match output {
        OutputForm::Text => text::render(&report, has_color_on_stdout()),
        OutputForm::Json => json::render(&report),
        OutputForm::Sarif => sarif::render(&report),
        OutputForm::Github => github::render(&report),
    };
    print_result(&text)?;
    if output == OutputForm::Sarif && report.findings.len() > sarif::MAX_RESULTS {
        print_note(&format!(
            "only the first {} findings are in the output, as code scanning takes",
            sarif::MAX_RESULTS
        ));
    }
    Ok(if report.findings.is_empty() { ExitStatus::Ok } else { ExitStatus::Findings })
}

/// Loads what lies at `paths` as the daemon loads a commit.
fn check(tree: &WorkingTree, paths: &[PathBuf], rules: &Rules) -> Result<Report, Failure> {
    let mut listing = Listing::default();
    for path in paths {
        tree.list(path, &mut listing).map_err(unreadable)?;
    }
    listing.files.retain(|path, _| is_manifest(path));
    let schemas = Schemas::embedded();
    let mut intake = Intake::default();
    let mut files = Vec::new();
    for (path, place) in &listing.files {
        let file = match read_file(place, rules.max_file_bytes).map_err(unreadable)? {
            Some(bytes) if !intake.admits(path, bytes.len()) => continue,
            Some(bytes) => load_file(path, &bytes, rules, &schemas),
            None => LoadedFile::too_large(path, rules.max_file_bytes),
        };
        files.push(intake.take(file));
    }
    let others = listing.not_followed.iter().filter_map(|(path, what)| LoadedFile::not_followed(path, *what));
    files.extend(others.map(|file| intake.take(file)));
    files.extend(intake.rest());
    if files.is_empty() {
        let looked_at = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let message = format!(
            "there are no manifests in {looked_at}\n  hint: they are named .yaml, .yml or .json, and not hidden"
        );
        return Err(Failure::message(ExitStatus::NotFound, message));
    }
    let desired = assemble(files);
    let objects = desired.objects.len() + desired.held.len();
    Ok(Report { findings: desired.problems, files: listing.files.len(), objects })
}

fn unreadable(error: WorkingTreeError) -> Failure {
    let status = match &error {
        WorkingTreeError::Missing { .. }
        | WorkingTreeError::Link { .. }
        | WorkingTreeError::Special { .. }
        | WorkingTreeError::TooDeep { .. } => ExitStatus::NotFound,
        WorkingTreeError::Repository { .. } => ExitStatus::Unavailable,
        // It was there a moment ago.
        WorkingTreeError::Read { source, .. } if source.kind() == ErrorKind::NotFound => ExitStatus::NotFound,
        WorkingTreeError::Read { .. } => ExitStatus::Internal,
    };
    Failure::new(status, error)
}

/// Where the rules are from.
enum Source {
    /// Flags and variables alone.
    Flags(Rules),
    /// A source of a settings file, with its folder in the repository.
    Settings(Rules, PathBuf),
}

/// What the flags and the settings file grant.
fn resolve_source(args: CheckArgs, typed: &TypedAs, environment: &Environment) -> Result<Source, Failure> {
    let CheckArgs { paths: _, output: _, config, source, grants } = args;
    // A variable that is set to nothing is not set.
    let config = config.filter(|config| !config.is_empty());
    let has_file = config.is_some();
    let mut run = RunArgs { config, grants, ..RunArgs::default() };
    if !has_file {
        // The daemon's settings with a repository that nobody asks: kinds and namespaces are read the same way.
        run.repo = Some(".".to_owned());
        run.cluster_name = Some("check".to_owned());
    }
    // No repository is reached, and where this runs the daemon's secrets are not.
    let understand = |run: RunArgs| load_without_credentials(run, LogArgs::default(), typed, environment);
    let loaded = match understand(run.clone()) {
        // The name of the cluster often comes from the daemon's own flags, and changes nothing here.
        Err(Problems(problems)) if problems.iter().any(is_about_cluster_name) => {
            run.cluster_name = Some("check".to_owned());
            understand(run)
        }
        result => result,
    };
    let sources = loaded.map_err(Failure::usage)?.settings.sources;
    let chosen = choose(&sources, source.as_deref())?;
    let rules = rules(chosen);
    Ok(if has_file {
        Source::Settings(rules, Path::new(chosen.path.as_str()).to_path_buf())
    } else {
        Source::Flags(rules)
    })
}

fn is_about_cluster_name(problem: &Problem) -> bool {
    problem.at == Origin::Default && problem.message == NO_CLUSTER_NAME
}

fn choose<'a>(sources: &'a [SourceSettings], name: Option<&str>) -> Result<&'a SourceSettings, Failure> {
    let names = || sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
    let wrong = |message: String| Failure::message(ExitStatus::Usage, message);
    match (name, sources) {
        (Some(name), _) => sources.iter().find(|source| source.name.as_str() == name).ok_or_else(|| {
            wrong(format!("--source: there is no source {name:?} in the settings, which have {}", names()))
        }),
        (None, [one]) => Ok(one),
        (None, _) => Err(wrong(format!("the settings have several sources: say --source with one of {}", names()))),
    }
}
