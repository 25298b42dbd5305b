// Generics, closures and trait objects.
use std::collections::BTreeMap;

mod shop {
    pub trait Price {
        fn price(&self, amount: u64) -> u64;
    }
    pub struct Fixed(pub u64);
    impl Price for Fixed {
        #[inline(never)]
        fn price(&self, amount: u64) -> u64 {
            self.0.wrapping_mul(amount).rotate_left(3)
        }
    }
    #[inline(never)]
    pub fn total<P: Price + ?Sized, F: Fn(u64) -> u64>(items: &[Box<P>], discount: F) -> u64 {
        items.iter().enumerate().map(|(i, item)| discount(item.price(i as u64))).sum()
    }
}

fn main() {
    let items: Vec<Box<dyn shop::Price>> =
        (0..100).map(|i| Box::new(shop::Fixed(i)) as Box<dyn shop::Price>).collect();
    let rate = std::env::args().count() as u64;
    let total = shop::total(&items, |price| price - price / (rate + 7));
    let mut counts = BTreeMap::new();
    for word in std::env::args().flat_map(|a| a.split('/').map(str::to_owned).collect::<Vec<_>>()) {
        *counts.entry(word).or_insert(0u32) += 1;
    }
    println!("{total} {counts:?}");
}
