// Package sim runs whole organisations in one process through random schedules of losses,
// take-overs, pauses and clock steps. Node, application, effects, signer and CometBFT are those of
// production, with their stores on a file system in memory. Databases, clocks and the network
// between machines are simulated. It holds tests alone.
package sim
