package backend

import (
	"maps"
	"slices"
)

// Environment lists facts beside the ledger on which results may depend, such as locale, libraries
// and extensions: values by name.
type Environment map[string]string

// EnvironmentDifference is a name for which two environments have other values; empty: there is
// none.
type EnvironmentDifference struct{ Name, Own, Other string }

// notCompared lists entries that differ between equal databases: the compiler of the server's
// packages, and the past of a database.
var notCompared = []string{"build", "collation version, when made"}

// Differences are those from another organisation's environment, ascending by name.
func (e Environment) Differences(other Environment) (out []EnvironmentDifference) {
	names := maps.Clone(e)
	maps.Copy(names, other)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if e[name] != other[name] && !slices.Contains(notCompared, name) {
			out = append(out, EnvironmentDifference{name, e[name], other[name]})
		}
	}
	return out
}
