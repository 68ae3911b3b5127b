// Package harness runs whole networks on one machine: for each organisation a private PostgreSQL
// cluster and a node process of the built binary. It starts, kills, restarts and tampers, waits by
// polling with limits, and ends its processes by their ids. The demo and the end-to-end tests are
// programs over it.
package harness
