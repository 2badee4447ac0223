//! Storage that is deleted goes, but not while it is in use.

use anyhow::bail;
use trireme_testkit::{Cluster, Options, poll};

use crate::support::LONG;

const STORAGE: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], storageClassName: manual, capacity: {storage: 1Gi}, hostPath: {path: /srv/disk}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: fast}
driverName: example.com
parameters: {iops: '100'}
";
/// On a node that never was, so that nobody but us ends it.
const USER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  nodeName: nowhere
  containers: [{name: c, image: c}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

#[test]
fn claims_stay_while_a_pod_uses_them_and_go_then() -> anyhow::Result<()> {
    let cluster = Cluster::up(Options::new("--only store,nats,apiserver,controllers --nodes 0"))?;
    cluster.apply(STORAGE)?;
    poll::until("the service account of Pods", LONG, || cluster.apply(USER))?;
    cluster.kubectl("delete pvc/data pv/disk volumeattributesclass/fast --wait=false")?.ok()?;
    for what in ["pv/disk", "volumeattributesclass/fast"] {
        is_gone(&cluster, what)?;
    }
    let claim = cluster.kubectl("get pvc data -o json")?.json()?;
    assert!(claim["metadata"]["deletionTimestamp"].is_string(), "{claim}");
    assert_eq!(claim["metadata"]["finalizers"][0], "kubernetes.io/pvc-protection", "{claim}");
    cluster.kubectl("delete pod user --force --grace-period=0")?.ok()?;
    is_gone(&cluster, "pvc/data")
}

fn is_gone(cluster: &Cluster, what: &str) -> anyhow::Result<()> {
    poll::until(&format!("{what} is gone"), LONG, || {
        let left = cluster.kubectl(&format!("get {what} --ignore-not-found -o yaml"))?.ok()?;
        if !left.trim().is_empty() {
            bail!("{left}");
        }
        Ok(())
    })
}
