module spins

go 1.21
