//! `serin status --watch` on a terminal and on a pipe, while the API server goes away and comes back.

use std::path::Path;

use crate::support::control_plane::User;
use crate::support::manifests::Manifest;
use crate::support::process::{self, Running};
use crate::support::site::{AGENT, Site};

/// What clears the screen of a terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// What stands on a terminal to which `written` was written.
fn screen(written: &str) -> String {
    written.rsplit(CLEAR).next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_watch_says_that_the_api_server_is_away_and_goes_on_when_it_is_back() {
    let manifest = Manifest::new(&["100"]);
    let site = Site::alone().await;
    site.start_with(&manifest).await;
    let name = format!("{}/{AGENT}", site.namespace);
    let kubeconfig = site.plane.kubeconfig(User::Serin).display().to_string();
    let command = ["status", &name, "--watch", "--kubeconfig", &kubeconfig].map(str::to_owned);
    let folder = process::scratch("watch");
    let (serin, read) = (env!("CARGO_BIN_EXE_serin"), |file: &Path| std::fs::read_to_string(file).unwrap_or_default());
    let on_pipe = folder.join("pipe");
    let mut pipe = Running::start(Path::new(serin), &command, on_pipe.clone());
    // A pseudo terminal, whose end is that of the program on it.
    let on_terminal = folder.join("terminal");
    let line = format!("exec {serin} {}", command.join(" "));
    let script = ["--quiet", "--flush", "--return", "--command", &line, "/dev/null"].map(str::to_owned);
    let mut terminal = Running::start(Path::new("script"), &script, on_terminal.clone());
    let shows = |text: &str| read(&on_pipe).contains(text) && screen(&read(&on_terminal)).contains(text);
    site.until("both show the agent", || async { shows("idle") && shows("stable") }).await;

    const AWAY: &str = "what is shown is what was known";
    site.plane.stop_api_server();
    site.until("both say that it is away", || async { shows(AWAY) }).await;
    let drawn = read(&on_terminal).matches(CLEAR).count();
    site.until("the terminal is redrawn", || async { read(&on_terminal).matches(CLEAR).count() > drawn + 1 }).await;
    assert!(shows(AWAY) && screen(&read(&on_terminal)).contains(&name), "the note stays, and so does what was known");
    assert!(!read(&on_pipe).contains(CLEAR));

    site.plane.start_api_server().await;
    site.until("both know that it is back", || async {
        read(&on_pipe).contains("the API server answers again") && !screen(&read(&on_terminal)).contains(AWAY)
    })
    .await;
    site.push(&manifest.candidate("2.0.0"), "try 2.0.0");
    site.until_decisions(1).await;
    site.until_stable("2.0.0", 4).await;
    site.until("both show the promotion", || async {
        let last = read(&on_pipe).lines().last().unwrap_or_default().to_owned();
        last.contains("2.0.0 4/4") && screen(&read(&on_terminal)).contains("2.0.0")
    })
    .await;

    pipe.signal("INT");
    let children = format!("/proc/{0}/task/{0}/children", terminal.id());
    let child: u32 = std::fs::read_to_string(children).unwrap().trim().parse().expect("one child");
    process::signal(child, "INT");
    site.until("both end", || std::future::ready(pipe.has_ended() && terminal.has_ended())).await;
    assert_eq!([&mut pipe, &mut terminal].map(|watch| watch.exit_status().unwrap().code()), [Some(0), Some(0)]);
}
