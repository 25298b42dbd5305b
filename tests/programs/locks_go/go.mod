module locks_go

go 1.21
