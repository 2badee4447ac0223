//! Every service killed in turn, and all at once, while clients write without pause.

use trireme_testkit::{Cluster, Options, poll};

use crate::{
    history::History,
    support::{LONG, WEB, ready_pods},
};

#[test]
fn killing_services_loses_and_doubles_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::default())?;
    cluster.apply(WEB)?;
    ready_pods(&cluster, "app=web", 2)?;
    let history = History::start(&cluster.kubeconfig(), 4)?;
    let processes = cluster.processes()?;
    for process in &processes {
        more_writes(&history)?;
        cluster.kill(process)?;
        cluster.start()?;
    }
    more_writes(&history)?;
    for process in &processes {
        cluster.kill(process)?;
    }
    cluster.start()?;
    more_writes(&history)?;
    let acknowledged = history.judge()?;
    assert!(acknowledged > 100, "only {acknowledged} writes were acknowledged");
    cluster.kubectl("scale deployment web --replicas=3")?.ok()?;
    ready_pods(&cluster, "app=web", 3).map(|_| ())
}

/// The bus away for a while, then back: a hint is a hint.
#[test]
fn the_bus_may_go_away() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--only store,nats,apiserver"))?;
    let history = History::start(&cluster.kubeconfig(), 4)?;
    more_writes(&history)?;
    cluster.kill("nats")?;
    for _ in 0..20 {
        more_writes(&history)?;
        history.watched()?;
    }
    cluster.start()?;
    for _ in 0..20 {
        more_writes(&history)?;
        history.watched()?;
    }
    history.judge().map(|_| ())
}

/// Waits for twenty more acknowledged writes.
fn more_writes(history: &History) -> anyhow::Result<()> {
    let before = history.acknowledged();
    poll::until("writes go on", LONG, || {
        if history.acknowledged() < before + 20 {
            anyhow::bail!("{} since", history.acknowledged() - before);
        }
        Ok(())
    })
}
