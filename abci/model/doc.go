// Package model is a model checker: it explores all schedules of small consortia. The decisions are
// the production code's: order.State.Apply for the order, effects.Core for each organisation.
// Network, clock and databases are models. It holds tests alone; spec/model.md lists bounds and
// properties.
package model
