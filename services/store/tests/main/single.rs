//! One member.
use std::time::Duration;

use tokio::time::Instant;
use trireme_proto::etcdserverpb as pb;
use trireme_proto::etcdserverpb::request_op::Request;
use trireme_proto::store::v1::{Cause, Fence};
use trireme_testkit::poll::{self, PATIENCE};

use crate::history::Load;
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kill_9() {
    let mut cluster = Cluster::start(1, &[]).await;
    let mut last_revision = 0;
    for round in 0..4 {
        let load = Load::start(vec![cluster.client(0); 8]);
        // Elsewhere in the life of a batch each time.
        load.goes_on(100 + round * 37).await;
        cluster.kill(0);
        let record = load.stop().await;
        cluster.restart(0).await;
        record.judge(&cluster.client(0)).await;
        let revision = cluster.client(0).read_index().await.unwrap().revision;
        assert!(revision > last_revision);
        last_revision = revision;
        // The next round's keys are the same ones.
        let delete = pb::DeleteRangeRequest { key: "load/".into(), range_end: "load0".into(), ..Default::default() };
        cluster.client(0).kv().delete_range(delete).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_cut_and_a_start_from_a_snapshot_has_everything() {
    let mut cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    let mut puts = tokio::task::JoinSet::new();
    for i in 0..300 {
        let client = client.clone();
        puts.spawn(async move { client.put(&format!("big/{i}"), vec![b'x'; 100_000]).await.unwrap() });
    }
    while let Some(put) = puts.join_next().await {
        put.unwrap();
    }
    // Half of it again, so that there is something to forget.
    for i in 0..150 {
        client.put(&format!("big/{i}"), vec![b'y'; 100_000]).await.unwrap();
    }
    let revision = client.read_index().await.unwrap().revision;
    client.compact(revision).await.unwrap();
    let wal = cluster.data_dir(0).join("wal");
    poll::found("the log to be cut", PATIENCE, async || {
        // A write, so that files change hands.
        client.put("tick", vec![b'z'; 50_000]).await.unwrap();
        let files = std::fs::read_dir(&wal).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
        (files.sum::<u64>() < 30 << 20).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(cluster.snapshots(0), 1);
    let (hash, incarnation) = (client.hash(0).await.unwrap(), client.read_index().await.unwrap().incarnation);
    cluster.kill(0);
    cluster.restart(0).await;
    let client = cluster.client(0);
    assert_eq!(client.hash(0).await.unwrap(), hash);
    assert_eq!(client.list("big/", false).await.unwrap().count, 300);
    assert_eq!(client.read_index().await.unwrap().incarnation, incarnation);
    client.put("one more", "x").await.unwrap();
    let metrics = cluster.page(0, "/metrics").await;
    assert!(metrics.contains("etcd_disk_wal_fsync_duration_seconds"), "{metrics}");
}

/// Damages a file in its middle.
fn damage(path: &std::path::Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_is_made_again_from_the_log_or_refused() {
    let mut cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    for i in 0..60 {
        client.put(&format!("big/{}", i % 40), vec![b'x'; 100_000]).await.unwrap();
    }
    client.compact(client.read_index().await.unwrap().revision - 10).await.unwrap();
    poll::found("a snapshot", PATIENCE, async || (cluster.snapshots(0) == 1).then_some(())).await.unwrap();
    client.put("after", "it").await.unwrap();
    let (hash, incarnation) = (client.hash(0).await.unwrap(), client.read_index().await.unwrap().incarnation);
    let snap = cluster.data_dir(0).join("snap");
    let files = |ending: &str| -> Vec<std::path::PathBuf> {
        let all = std::fs::read_dir(&snap).unwrap().map(|file| file.unwrap().path());
        all.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    };
    cluster.kill(0);
    damage(&files(".snap")[0]);
    cluster.restart(0).await;
    assert_eq!(cluster.client(0).hash(0).await.unwrap(), hash);
    assert_eq!(cluster.client(0).read_index().await.unwrap().incarnation, incarnation);
    poll::found("the damaged one to be put aside", PATIENCE, async || {
        (files(".snap.broken").len() == 1 && cluster.snapshots(0) == 1).then_some(())
    })
    .await
    .unwrap();
    // What was made again is whole.
    cluster.kill(0);
    cluster.restart(0).await;
    assert_eq!(cluster.client(0).hash(0).await.unwrap(), hash);

    // Without the log nothing can stand in, and the damaged file stays for whoever looks.
    cluster.kill(0);
    damage(&files(".snap")[0]);
    let wal = cluster.data_dir(0).join("wal");
    for file in std::fs::read_dir(&wal).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    let refused = cluster.command(0).output().unwrap();
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
    assert!(text.contains("the log is missing, but there is a snapshot up to entry"), "{text}");
    assert_eq!(cluster.snapshots(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn causes_come_back_from_ranges_and_watches_and_after_a_restart() {
    let mut cluster = Cluster::start(1, &[]).await;
    let cause = Some(Cause {
        cause: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        intent: "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01".into(),
        cause_unix_nanos: 7,
        intent_unix_nanos: 6,
        inferred: true,
        fence: Some(Fence {
            controller: "deployment".into(),
            key: "a/b".into(),
            shard: 3,
            epoch: 12,
            claim: "c".into(),
        }),
    });
    let put = pb::PutRequest { key: "k".into(), value: "v".into(), cause: cause.clone(), ..Default::default() };
    cluster.client(0).kv().put(put).await.unwrap();
    let delete = pb::DeleteRangeRequest { key: "k".into(), cause: cause.clone(), ..Default::default() };
    let revision = cluster.client(0).kv().delete_range(delete).await.unwrap().into_inner().header.unwrap().revision;
    for _ in 0..2 {
        let client = cluster.client(0);
        let at = pb::RangeRequest { key: "k".into(), revision: revision - 1, ..Default::default() };
        assert_eq!(client.kv().range(at).await.unwrap().into_inner().kvs[0].cause, cause);
        let mut stream = crate::watch::open(&client, "k", revision - 1).await;
        let mut events = Vec::new();
        while events.len() < 2 {
            events.extend(stream.message().await.unwrap().unwrap().events);
        }
        assert!(events.iter().all(|e| e.kv.as_ref().unwrap().cause == cause), "{events:?}");
        cluster.kill(0);
        cluster.restart(0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_after_a_restart_too_and_never_early() {
    let mut cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(0);
    let grant = pb::LeaseGrantRequest { ttl: 3, id: 5 };
    client.leases().lease_grant(grant).await.unwrap();
    let put = pb::PutRequest { key: "leased".into(), lease: 5, ..Default::default() };
    client.kv().put(put).await.unwrap();
    poll::found("most of its life to be over", PATIENCE, async || {
        let look = pb::LeaseTimeToLiveRequest { id: 5, keys: false };
        (client.leases().lease_time_to_live(look).await.unwrap().into_inner().ttl <= 1).then_some(())
    })
    .await
    .unwrap();
    cluster.kill(0);
    let restarted = Instant::now();
    cluster.restart(0).await;
    let client = cluster.client(0);
    poll::found("the lease to end", PATIENCE, async || client.get("leased").await.unwrap().is_none().then_some(()))
        .await
        .unwrap();
    // The clock began anew with the new leader.
    assert!(restarted.elapsed() >= Duration::from_secs(3), "{:?}", restarted.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    let cluster = Cluster::start(1, &[]).await;
    assert!(cluster.client_with(0, false).get("a").await.is_err());
    assert!(cluster.client(0).get("a").await.is_ok());
    // A second process on the same data, and other flags on the same data, get a clear word.
    let twice = cluster.command(0).output().unwrap();
    assert!(!twice.status.success());
    let text = String::from_utf8_lossy(&twice.stderr).into_owned() + &String::from_utf8_lossy(&twice.stdout);
    assert!(text.contains("another process uses this directory"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_takes_deletions_and_says_why() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes=1000000"]).await;
    let client = cluster.client(0);
    let refused =
        poll::found("the quota to be spent", PATIENCE, async || client.put("fill", vec![b'x'; 100_000]).await.err())
            .await
            .unwrap();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "etcdserver: mvcc: database space exceeded");
    let delete = pb::DeleteRangeRequest { key: "fill".into(), ..Default::default() };
    client.kv().delete_range(delete.clone()).await.unwrap();
    // So deletes an API server: in a transaction.
    let in_txn = pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) };
    client.kv().txn(pb::TxnRequest { success: vec![in_txn], ..Default::default() }).await.unwrap();
    assert!(client.status().await.unwrap().errors[0].contains("NOSPACE"));
}
