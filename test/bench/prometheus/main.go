// Command prometheus holds the answers of berth against those of real
// Prometheus servers.
//
// It starts a daemon on simulated GPUs with work and leases, a Prometheus of
// the version whose engine berth has, and an older one of Debian, both of which
// scrape the daemon every second. Then it asks all of them the same questions
// about the same moments: the table of queries, every panel of the Grafana
// dashboard and every rule that ships. It ends with 1 if an answer of berth
// differs by more than 2 % from that of the Prometheus, if a question is
// refused, or if berth has no answer where the Prometheus has one. Run it in
// the root of the repository, with make test-prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// programs are the binaries that are run.
type programs struct{ berth, prometheus, debian, promtool string }

func main() {
	var p programs
	flag.StringVar(&p.berth, "berth", "bin/berth", "the binary")
	flag.StringVar(&p.prometheus, "prometheus", "bin/prometheus", "a Prometheus of the version whose engine berth has")
	flag.StringVar(&p.debian, "debian", "bin/prometheus-debian", "an older Prometheus that must accept every query too")
	flag.StringVar(&p.promtool, "promtool", "bin/promtool", "the promtool that asks berth")
	warm := flag.Duration("warm", 290*time.Second, "how long to scrape before asking")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, *warm); err != nil {
		fmt.Fprintln(os.Stderr, "prometheus:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, p programs, warm time.Duration) (err error) {
	folder, err := os.MkdirTemp("", "berth-prometheus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := startMachine(ctx, p.berth, folder)
	if err != nil {
		return err
	}
	defer m.stop()
	go m.work(ctx)
	same, err := startPrometheus(ctx, p.prometheus, filepath.Join(folder, "same"), m.address)
	if err != nil {
		return err
	}
	defer same.stop()
	older, err := startPrometheus(ctx, p.debian, filepath.Join(folder, "older"), m.address)
	if err != nil {
		return err
	}
	defer older.stop()
	fmt.Printf("berth is at %s, and is scraped for %v\n", m.address, warm)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(warm):
	}
	if err := m.failed(); err != nil {
		return err
	}
	own := server{name: "berth", base: "http://" + m.address}
	at := time.Now().Add(-3 * time.Second).Truncate(time.Second)
	return errors.Join(
		compareAll(ctx, own, same.server, at),
		askShipped(ctx, own, same.server, older.server, at),
		askWithPromtool(ctx, p.promtool, own.base, at),
	)
}
