// Command berth-dra is the driver of a Kubernetes node: it turns claims into leases of
// berth's daemon on the same node.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/plugin"
)

// version is set when the binary is built.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "berth-dra:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	s, err := parse(args, os.Getenv)
	if err != nil || s.help {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: s.level}))
	klog.SetSlogLogger(log)
	metrics := export.New()
	options, err := s.options(log, metrics)
	if err != nil {
		return err
	}
	driver, err := plugin.New(options)
	if err != nil {
		return err
	}
	if err := serve(ctx, s.listen, export.Handler(metrics, driver)); err != nil {
		return err
	}
	log.Info("driver starts", "version", version, "node", s.node, "daemon", options.Address, "listen", s.listen)
	return driver.Run(ctx)
}

// serve serves pages on an address until ctx ends.
func serve(ctx context.Context, address string, pages http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve the driver's pages: %w", err)
	}
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return nil
}
