//! Taking orphans in and letting strays go.

use std::sync::Arc;

use serde_json::json;
use trireme_client::{Client, Error, Known, Patch, PatchParams};

use super::owner::{Sorted, reference_to};

/// Does what the sorting found; gives back the owner's own, the adopted among them.
pub(crate) async fn settle<K: Known, O: Known>(
    client: &Client,
    owner: &O,
    sorted: Sorted<K>,
) -> Result<Vec<Arc<K>>, Error> {
    let namespace = owner.meta().namespace.clone().unwrap_or_default();
    let api = client.namespaced::<K>(&namespace);
    let mut mine = sorted.mine;
    if !sorted.adopt.is_empty() && still_wants(client, owner).await? {
        for orphan in sorted.adopt {
            let patch = json!({"metadata": {"ownerReferences": [reference_to(owner)], "uid": orphan.uid()}});
            match api.patch(&orphan.key().name, &PatchParams::default(), &Patch::Strategic(patch)).await {
                Ok(adopted) => mine.push(Arc::new(adopted)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
    }
    for stray in sorted.release {
        let patch = json!({"metadata": {
            "ownerReferences": [{"$patch": "delete", "uid": owner.uid()}],
            "uid": stray.uid(),
        }});
        match api.patch(&stray.key().name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            // Gone, or another object of that name, or without owners: nothing to let go.
            Err(error) if error.is_not_found() || error.is_invalid() || error.is_conflict() => {}
            other => drop(other?),
        }
    }
    Ok(mine)
}

/// An owner that is being deleted must not adopt, and the informer may be behind.
async fn still_wants<O: Known>(client: &Client, owner: &O) -> Result<bool, Error> {
    let key = owner.key();
    let fresh = client.namespaced::<O>(key.namespace).get_opt(&key.name).await?;
    Ok(fresh.is_some_and(|f| f.uid() == owner.uid() && !f.is_deleting()))
}
