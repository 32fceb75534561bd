// Package client talks to a berth daemon: over its Unix socket on the same
// machine, or over HTTP. It has one method per route, answers in the types of
// package api, and turns what went wrong into errors a program can decide on:
//
//   - [*NoDaemonError]: nobody listens, and how to start one;
//   - [*api.Problem]: the daemon answered, and refused; Code says why;
//   - anything else: the connection or the answer broke on the way.
//
// Every method takes a context and gives up when it ends.
package client
