//! The Universal Scalability Law beside the simulation: `X(n) = λ n / (1 + σ (n - 1) + κ n (n - 1))`, fitted to
//! the real runs of each series over threads. It is told what it is to find, and still has only three numbers.
use super::report::Row;

/// Fits every series (cells alike but for the threads) and notes what the law says of each cell.
pub(super) fn fit(rows: &mut [Row]) {
    let series = |row: &Row| (row.cell.kind, row.cell.batch, row.cell.shards);
    let mut all: Vec<_> = rows.iter().map(series).collect();
    all.sort();
    all.dedup();
    for one in all {
        let points: Vec<(f64, f64)> = rows
            .iter()
            .filter(|r| series(r) == one)
            .map(|r| (r.cell.threads as f64, r.real))
            .collect();
        let law = Law::of(&points);
        for row in rows.iter_mut().filter(|r| series(r) == one) {
            row.scalability = Some(law.at(row.cell.threads as f64));
        }
    }
}

/// The law with its numbers.
#[derive(Clone, Copy, Debug)]
struct Law {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Law {
    /// By least squares of `n / X = (1 + σ (n - 1) + κ n (n - 1)) / λ`, which is linear in 1, n - 1 and n (n - 1);
    /// numbers below 0 mean nothing and are taken for 0.
    fn of(points: &[(f64, f64)]) -> Law {
        let mut sums = [[0.0; 4]; 3];
        for (n, x) in points {
            // Relative errors count: the smallest throughput as much as the largest.
            let weight = x / n;
            let terms = [weight, weight * (n - 1.0), weight * n * (n - 1.0)];
            for (row, own) in sums.iter_mut().zip(terms) {
                for (cell, other) in row.iter_mut().zip(terms) {
                    *cell += own * other;
                }
                row[3] += own;
            }
        }
        let [base, linear, square] = solved(sums);
        let base = base.max(1e-300);
        Law {
            lambda: 1.0 / base,
            sigma: (linear / base).max(0.0),
            kappa: (square / base).max(0.0),
        }
    }

    fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }
}

/// Gauss' elimination with the largest pivot.
fn solved(mut rows: [[f64; 4]; 3]) -> [f64; 3] {
    for column in 0..3 {
        let pivot =
            (column..3).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()));
        rows.swap(column, pivot.unwrap_or(column));
        let pivot = rows[column];
        for (other, row) in rows.iter_mut().enumerate() {
            if other != column && pivot[column] != 0.0 {
                let factor = row[column] / pivot[column];
                row.iter_mut()
                    .zip(pivot)
                    .for_each(|(cell, p)| *cell -= factor * p);
            }
        }
    }
    [0, 1, 2].map(|i| {
        if rows[i][i] == 0.0 {
            0.0
        } else {
            rows[i][3] / rows[i][i]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_is_found_from_its_own_points() {
        let law = Law {
            lambda: 1000.0,
            sigma: 0.1,
            kappa: 0.02,
        };
        let points = [1.0, 2.0, 4.0, 8.0].map(|n| (n, law.at(n)));
        let found = Law::of(&points);
        for (n, x) in points {
            assert!((found.at(n) / x - 1.0).abs() < 1e-6, "{found:?}");
        }
    }
}
