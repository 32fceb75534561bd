// Package client talks to a berth daemon: over its Unix socket on the same
// machine, or over HTTP.
//
// It has one method per route, answers in the types of package api, and returns
// errors that a program can tell apart:
//
//   - [*NoDaemonError]: no daemon listens; Hint says how to start one;
//   - [*api.Problem]: the daemon refused the request; Code says why;
//   - any other error: the connection broke, or the answer was not complete.
//
// Every method takes a context and gives up when it ends.
package client
