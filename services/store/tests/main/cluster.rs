//! Several members.
use std::time::Duration;

use tokio::time::{Instant, timeout};
use trireme_proto::etcdserverpb as pb;
use trireme_testkit::poll::{self, PATIENCE};

use crate::history::Load;
use crate::support::Cluster;
use crate::watch::{check_each_once, open, read_until};

/// All members that run have the same data.
async fn assert_same_data(cluster: &Cluster, members: &[usize]) {
    let revision = cluster.client(members[0]).read_index().await.unwrap().revision;
    let mut hashes = Vec::new();
    for i in members {
        cluster.client(*i).read_index().await.unwrap();
        hashes.push(cluster.client(*i).hash(revision).await.unwrap());
    }
    assert!(hashes.windows(2).all(|w| w[0] == w[1]), "{hashes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_3_seconds_and_nothing_acknowledged_is_lost() {
    let mut cluster = Cluster::start(3, &[]).await;
    for round in 0..2 {
        let clients = (0..6).map(|i| cluster.client(i % 3)).collect();
        let load = Load::start(clients);
        load.goes_on(100).await;
        let leader = cluster.leader().await;
        let survivor = (leader + 1) % 3;
        let mut watch = open(&cluster.client(survivor), "load/", 0).await;
        assert!(watch.message().await.unwrap().unwrap().created);
        let from = cluster.client(survivor).put("load/mark", "x").await.unwrap();
        cluster.kill(leader);
        let killed = Instant::now();
        load.goes_on(100).await;
        let record = load.stop().await;
        let pause = record.resumed_after(killed);
        println!(
            "round {round}: {} acknowledged, {} refused, pause {pause:?}",
            record.acknowledged.len(),
            record.refused
        );
        assert!(pause < Duration::from_secs(3), "{pause:?}");
        record.judge(&cluster.client(survivor)).await;

        // The watch at a survivor saw every put under its prefix from the mark on, once.
        let last = cluster.client(survivor).put("load/end", "x").await.unwrap();
        let events = read_until(&mut watch, last).await;
        let seen: Vec<i64> =
            events.iter().map(|e| e.kv.as_ref().unwrap().mod_revision).filter(|r| *r >= from).collect();
        assert!(seen.windows(2).all(|w| w[0] < w[1]), "in order, each once");
        for (key, revision) in record.puts.iter().filter(|(_, r)| *r >= from) {
            assert!(seen.binary_search(revision).is_ok(), "{key} at {revision} was not seen");
        }

        cluster.restart(leader).await;
        assert_same_data(&cluster, &[0, 1, 2]).await;
        let delete = pb::DeleteRangeRequest { key: "load/".into(), range_end: "load0".into(), ..Default::default() };
        cluster.client(0).kv().delete_range(delete).await.unwrap();
    }
}

/// As after a kill, though nothing tells that the leader is gone: its connections stay. No client of the others waits for
/// it, not even those whose writes were handed to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_falls_silent_is_replaced_and_nobody_waits_for_it() {
    let cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let load = Load::start((0..6).map(|i| cluster.client(others[i % 2])).collect());
    load.goes_on(100).await;
    cluster.freeze(leader);
    let frozen = Instant::now();
    load.goes_on(100).await;
    let record = load.stop().await;
    let (pause, longest) = (record.resumed_after(frozen), record.longest);
    println!(
        "{} acknowledged, {} refused, pause {pause:?}, longest wait {longest:?}",
        record.puts.len(),
        record.refused
    );
    // Half of what a write may take: an answer that does not come is given up before.
    assert!(pause < Duration::from_secs(3) && longest < Duration::from_millis(3500), "{pause:?} {longest:?}");
    cluster.thaw(leader);
    record.judge(&cluster.client(leader)).await;
    assert_same_data(&cluster, &[0, 1, 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_dead_all_works_three_dead_it_refuses() {
    let mut cluster = Cluster::start(5, &[]).await;
    let first = cluster.client(0).put("a", "1").await.unwrap();
    let leader = cluster.leader().await;
    let (second, third) = ((leader + 1) % 5, (leader + 2) % 5);
    cluster.kill(leader);
    cluster.kill(second);
    let client = cluster.client((leader + 3) % 5);
    poll::found("writes with two dead", PATIENCE, async || client.put("a", "2").await.ok()).await.unwrap();
    assert_eq!(client.get("a").await.unwrap().unwrap().value, "2");
    cluster.kill(third);
    let refused = timeout(PATIENCE, client.put("a", "3")).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
    // What may be stale is still answered.
    let list = client.list("a", true).await.unwrap();
    assert!(list.kvs[0].mod_revision > first);
    for i in [leader, second, third] {
        cluster.run(i);
    }
    poll::found("writes with all back", PATIENCE, async || client.put("a", "4").await.ok()).await.unwrap();
    assert_same_data(&cluster, &[0, 1, 2, 3, 4]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_for_long_gets_a_snapshot_and_its_watches_go_on() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    cluster.kill(away);
    let mut logs: Vec<_> = std::fs::read_dir(cluster.data_dir(leader).join("wal")).unwrap().collect();
    let beginning = logs.pop().unwrap().unwrap().path();
    assert!(logs.is_empty());
    let client = cluster.client(leader);
    let mut puts = tokio::task::JoinSet::new();
    for i in 0..200 {
        let client = client.clone();
        puts.spawn(async move { client.put(&format!("big/{}", i % 50), vec![b'x'; 100_000]).await.unwrap() });
    }
    while let Some(put) = puts.join_next().await {
        put.unwrap();
    }
    client.compact(client.read_index().await.unwrap().revision - 10).await.unwrap();
    // When the file is gone that was the log while the other was there, the log cannot bring the other up to date.
    poll::found("the leader's log to be cut", PATIENCE, async || {
        client.put("tick", "x").await.unwrap();
        (!beginning.exists()).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(cluster.snapshots(away), 0);
    cluster.restart(away).await;
    assert_same_data(&cluster, &[0, 1, 2]).await;
    assert_eq!(cluster.snapshots(away), 1, "it was given one");
    let first = client.put("w/0", "x").await.unwrap();
    let mut watch = open(&cluster.client(away), "w/", first).await;
    let mut last = first;
    for i in 1..20 {
        last = client.put(&format!("w/{i}"), "x").await.unwrap();
    }
    check_each_once(&read_until(&mut watch, last).await, first..=last, 1);
}

/// It may have voted for what it does not have any more, so that nothing is given to it unasked; but it takes nobody with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_lost_its_data_does_not_end_the_leader() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let (wiped, third) = ((leader + 1) % 3, (leader + 2) % 3);
    for i in 0..20 {
        cluster.client(leader).put(&format!("a/{i}"), "x").await.unwrap();
    }
    // All have it, and the leader knows.
    assert_same_data(&cluster, &[0, 1, 2]).await;
    cluster.kill(wiped);
    std::fs::remove_dir_all(cluster.data_dir(wiped)).unwrap();
    cluster.run(wiped);
    poll::found("the leader to tell of it", PATIENCE, async || {
        cluster.log(leader).contains("lost data that it had acknowledged").then_some(())
    })
    .await
    .unwrap();
    assert_eq!(cluster.leader().await, leader);
    cluster.client(leader).put("a/after", "x").await.unwrap();

    let target_id = cluster.client(third).status().await.unwrap().header.unwrap().member_id;
    cluster.client(leader).maintenance().move_leader(pb::MoveLeaderRequest { target_id }).await.unwrap();
    cluster.ready(wiped).await;
    assert_same_data(&cluster, &[0, 1, 2]).await;
    assert_eq!(cluster.client(wiped).list("a/", true).await.unwrap().count, 21);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_member_serves() {
    let cluster = Cluster::start(3, &[]).await;
    for i in 0..3 {
        let client = cluster.client(i);
        let revision = client.put("who", format!("{i}")).await.unwrap();
        // The one that wrote sees it at once, even with reads that may be stale.
        let read = client.list("who", true).await.unwrap();
        assert_eq!(read.kvs[0].mod_revision, revision);
        let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
        let lease = client.leases().lease_grant(grant).await.unwrap().into_inner().id;
        let look = pb::LeaseTimeToLiveRequest { id: lease, keys: false };
        assert!(client.leases().lease_time_to_live(look).await.unwrap().into_inner().ttl > 50);
        let members =
            client.members().member_list(pb::MemberListRequest::default()).await.unwrap().into_inner().members;
        assert!(members.iter().all(|m| !m.client_ur_ls.is_empty() && !m.peer_ur_ls.is_empty()), "{members:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_is_handed_round_under_load_and_nothing_is_lost() {
    let cluster = Cluster::start(3, &[]).await;
    let load = Load::start((0..6).map(|i| cluster.client(i % 3)).collect());
    for _ in 0..3 {
        load.goes_on(50).await;
        let leader = cluster.leader().await;
        let successor = cluster.client((leader + 1) % 3);
        let target = successor.status().await.unwrap().header.unwrap().member_id;
        let asked = pb::MoveLeaderRequest { target_id: target };
        let refused = successor.maintenance().move_leader(asked).await.unwrap_err();
        assert_eq!(refused.message(), "etcdserver: not leader");
        cluster.client(leader).maintenance().move_leader(asked).await.unwrap();
        assert_eq!(cluster.client(leader).status().await.unwrap().leader, target, "it leads when the answer comes");
    }
    load.goes_on(50).await;
    load.stop().await.judge(&cluster.client(0)).await;
    let unknown = pb::MoveLeaderRequest { target_id: 1 };
    let leader = cluster.leader().await;
    let refused = cluster.client(leader).maintenance().move_leader(unknown).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: bad leader transferee");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lead_that_nobody_can_take_is_kept_and_holds_nothing_up() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    let target = cluster.client(away).status().await.unwrap().header.unwrap().member_id;
    cluster.kill(away);
    let (client, asking) = (cluster.client(leader), cluster.client(leader));
    let asked = tokio::spawn(async move {
        asking.maintenance().move_leader(pb::MoveLeaderRequest { target_id: target }).await.unwrap_err()
    });
    // A leader that is about to go accepts nothing: one that waited for its successor would refuse these in the end.
    while !asked.is_finished() {
        client.put("meanwhile", "x").await.unwrap();
    }
    assert_eq!(asked.await.unwrap().message(), "etcdserver: request timed out, leader transfer took too long");
    assert_eq!(cluster.leader().await, leader);
}
