// Package model explores small consortia made of the code that runs in production.
// order.State.Apply decides for the order, effects.Core for each organisation; only network, clock
// and databases are models. The package holds tests alone. Bounds, properties and correspondences:
// spec/model.md.
package model
