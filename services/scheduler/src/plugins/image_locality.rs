//! ImageLocality: a pod runs rather where its images are already.

use std::collections::HashMap;

use crate::framework::{Ask, MAX_SCORE, Rate, Score};
use crate::model::NodeInfo;

const MIB: i64 = 1 << 20;
/// Images of less altogether count for nothing.
const LEAST: i64 = 23 * MIB;
/// A container's image counts for no more.
const MOST: i64 = 1000 * MIB;

/// A pod runs rather where its images are already.
pub(crate) struct ImageLocality;

/// The pod's images, each with the part of the nodes that has it.
struct Images {
    spread: Vec<(String, f64)>,
}

impl Score for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn prepare<'a>(&self, ask: Ask<'a>, _: &[&'a NodeInfo]) -> Option<Box<dyn Rate + 'a>> {
        let spec = ask.pod.spec()?;
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let nodes = ask.snapshot.nodes();
        let mut known: HashMap<String, f64> = HashMap::new();
        let spread: Vec<(String, f64)> = containers
            .filter_map(|container| container.image.as_deref())
            .map(|image| {
                let name = with_tag(image);
                let part = *known.entry(name.clone()).or_insert_with(|| {
                    nodes.iter().filter(|node| node.images.contains_key(&name)).count() as f64
                        / nodes.len().max(1) as f64
                });
                (name, part)
            })
            .collect();
        let present = spread.iter().any(|(_, part)| *part > 0.0);
        present.then(|| Box::new(Images { spread }) as Box<dyn Rate>)
    }
}

impl Rate for Images {
    fn rate(&self, node: &NodeInfo) -> i64 {
        let size = |(name, part): &(String, f64)| node.images.get(name).map_or(0, |size| (*size as f64 * part) as i64);
        let most = MOST * self.spread.len().max(1) as i64;
        let present = self.spread.iter().map(size).sum::<i64>().clamp(LEAST, most);
        MAX_SCORE * (present - LEAST) / (most - LEAST)
    }
}

fn with_tag(image: &str) -> String {
    if image.rfind(':') > image.rfind('/') { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::labels::Selector;

    use super::*;
    use crate::plugins::testing::{cluster, rate};
    use crate::testing::{node, pod};

    #[test]
    fn the_node_that_has_the_image_scores_higher() {
        let images = json!([{"names": ["img:1"], "sizeBytes": 1_200_000_000}]);
        let snapshot = cluster(vec![node("a"), node("b").set(&["status", "images"], images)], vec![]);
        let scores = rate(&ImageLocality, &pod("p").info(), &snapshot, &Selector::everything()).unwrap();
        assert_eq!(scores[0], 0);
        assert!(scores[1] > 50, "{scores:?}");
        assert_eq!(with_tag("reg:5000/a"), "reg:5000/a:latest");
        assert_eq!(with_tag("reg/a:1"), "reg/a:1");
    }
}
