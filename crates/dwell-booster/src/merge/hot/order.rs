//! The order of hot functions: call-chain clustering (C3).
//!
//! From G. Ottoni and B. Maher, "Optimizing Function Placement for Large-Scale Data-Center Applications",
//! CGO 2017, section 3: functions, hottest first, are put behind the one that calls them most; chains are laid
//! out by density. A caller comes shortly before its callee, and what is hot shares pages.

/// A function, as far as its place is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Time spent in it, ns.
    pub weight: u64,
    /// Bytes; not 0.
    pub size: u64,
}

/// Chains grow to this many bytes: a huge page, beyond which nearness gains nothing.
const MAX_CHAIN: u64 = 2 << 20;
/// A chain may lose this factor of its density by what is appended, as in the authors' own program.
const MAX_THINNING: u128 = 8;

struct Chain {
    members: Vec<usize>,
    weight: u128,
    size: u64,
}

impl Chain {
    /// Whether it has more weight per byte than another.
    fn denser(&self, other: &Chain) -> std::cmp::Ordering {
        (self.weight * u128::from(other.size)).cmp(&(other.weight * u128::from(self.size)))
    }
}

/// Indices of the nodes in the order in which they are to be laid out. Calls are (caller, callee, weight).
pub(crate) fn order(nodes: &[Node], calls: &[(usize, usize, u64)]) -> Vec<usize> {
    let mut caller: Vec<Option<(u64, usize)>> = vec![None; nodes.len()];
    for &(from, to, weight) in calls {
        if from != to && caller[to].is_none_or(|best| (weight, from) > best) {
            caller[to] = Some((weight, from));
        }
    }
    let chain = |(index, node): (usize, &Node)| Chain {
        members: vec![index],
        weight: node.weight.into(),
        size: node.size,
    };
    let mut chains: Vec<Chain> = nodes.iter().enumerate().map(chain).collect();
    let mut chain_of: Vec<usize> = (0..nodes.len()).collect();
    let mut hottest: Vec<usize> = (0..nodes.len()).collect();
    hottest.sort_by_key(|&i| (std::cmp::Reverse(nodes[i].weight), i));
    for callee in hottest {
        let Some((_, caller)) = caller[callee] else {
            continue;
        };
        let (to, from) = (chain_of[caller], chain_of[callee]);
        if to == from || !fits(&chains[to], &chains[from]) {
            continue;
        }
        let members = std::mem::take(&mut chains[from].members);
        for &member in &members {
            chain_of[member] = to;
        }
        let (weight, size) = (chains[from].weight, chains[from].size);
        chains[to].members.extend(members);
        chains[to].weight += weight;
        chains[to].size += size;
    }
    chains.retain(|c| !c.members.is_empty());
    chains.sort_by(|a, b| b.denser(a).then(a.members[0].cmp(&b.members[0])));
    chains.into_iter().flat_map(|c| c.members).collect()
}

fn fits(to: &Chain, from: &Chain) -> bool {
    let size = to.size + from.size;
    let weight = to.weight + from.weight;
    size <= MAX_CHAIN && weight * u128::from(to.size) * MAX_THINNING >= to.weight * u128::from(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(all: &[(u64, u64)]) -> Vec<Node> {
        let node = |&(weight, size): &(u64, u64)| Node { weight, size };
        all.iter().map(node).collect()
    }

    #[test]
    fn callees_follow_their_heaviest_caller() {
        // 0 calls 2 more than 1 does; 3 is called by nobody and the densest.
        let nodes = nodes(&[(10, 100), (20, 100), (50, 100), (100, 100)]);
        let calls = [(0, 2, 40), (1, 2, 10), (2, 2, 99)];
        assert_eq!(order(&nodes, &calls), [3, 0, 2, 1]);
    }

    #[test]
    fn a_cold_giant_does_not_thin_out_a_hot_chain() {
        let nodes = nodes(&[(1000, 100), (1, 100_000)]);
        assert_eq!(order(&nodes, &[(0, 1, 1)]), [0, 1]);
        // It is placed behind everything, though its caller is in front.
        let nodes = self::nodes(&[(1000, 100), (1, 100_000), (500, 100)]);
        assert_eq!(order(&nodes, &[(0, 1, 1)]), [0, 2, 1]);
    }

    /// Whatever is called by what: each comes once, and chains stay together.
    #[test]
    fn every_function_comes_once() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let count = random.usize(0..40);
            let all: Vec<_> = (0..count)
                .map(|_| (random.u64(0..1000), random.u64(1..1 << 20)))
                .collect();
            let calls: Vec<_> = (0..count * 2)
                .map(|_| {
                    (
                        random.usize(0..count),
                        random.usize(0..count),
                        random.u64(..),
                    )
                })
                .collect();
            let mut found = order(&nodes(&all), &calls);
            found.sort_unstable();
            assert!(found.into_iter().eq(0..count));
        }
    }
}
