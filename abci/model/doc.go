// Package model explores small consortia made of the code that runs in production: order.State.Apply decides what the
// order does, effects.Core what each organisation does; only network, clock and databases are models. It holds tests alone.
// Bounds, properties and what corresponds to what: spec/model.md.
package model
