module github.com/berth-gpu/berth/test/bench/journal

go 1.26.0

require (
	github.com/berth-gpu/berth v0.0.0
	go.etcd.io/bbolt v1.5.0
	golang.org/x/sys v0.49.0
)

replace github.com/berth-gpu/berth => ../../..
