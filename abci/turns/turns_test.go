package turns

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
)

// The vectors are the other implementation's.
func TestTurnsAreThoseOfTheVectors(t *testing.T) {
	text, err := os.ReadFile("../../spec/vectors/order.json")
	must.Do(t, err)
	var file struct {
		Cases []struct {
			Name     string
			Block    []struct{ Sees, Writes []uint32 }
			Limits   map[string]uint64
			Order    []int
			Victims  []Victim
			CutSteps uint64 `json:"cut_steps"`
			Chance   uint64 `json:"chance_steps"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) < 50 {
		t.Fatal(err, len(file.Cases))
	}
	for _, c := range file.Cases {
		limits := Agreed
		for name, to := range map[string]*uint64{
			"accesses": &limits.Accesses, "cut_steps": &limits.CutSteps, "cycles": &limits.Cycles, "cycle_steps": &limits.CycleSteps, "chance_steps": &limits.ChanceSteps,
		} {
			if value, given := c.Limits[name]; given {
				*to = value
			}
		}
		block := make([]Accesses, len(c.Block))
		for i, a := range c.Block {
			block[i] = Accesses(a)
		}
		got := Of(block, limits)
		if !slices.Equal(got.Order, c.Order) || len(got.Victims)+len(c.Victims) > 0 && !reflect.DeepEqual(got.Victims, c.Victims) {
			t.Errorf("%s: %v, victims %+v, want %v, %+v", c.Name, got.Order, got.Victims, c.Order, c.Victims)
		}
		if got.CutSteps != c.CutSteps || got.ChanceSteps != c.Chance {
			t.Errorf("%s: %d cut steps, %d chance steps, want %d, %d", c.Name, got.CutSteps, got.ChanceSteps, c.CutSteps, c.Chance)
		}
	}
}

// Invariant S9, and nobody is lost or has two turns.
func TestNobodySawWhatAnEarlierOneWrites(t *testing.T) {
	random := seeded.Random(t)
	for range 300 {
		block := make([]Accesses, 1+random.IntN(40))
		for i := range block {
			for range 1 + random.IntN(4) {
				block[i].Sees = append(block[i].Sees, uint32(random.IntN(30)))
				if random.IntN(2) == 0 {
					block[i].Writes = append(block[i].Writes, uint32(random.IntN(30)))
				}
			}
		}
		got := Of(block, Agreed)
		all, written := slices.Clone(got.Order), map[uint32]bool{}
		for _, tx := range got.Order {
			if slices.ContainsFunc(block[tx].Sees, func(place uint32) bool { return written[place] }) {
				t.Fatalf("%d of %v in %+v saw what an earlier one writes", tx, got.Order, block)
			}
			for _, place := range block[tx].Writes {
				written[place] = true
			}
		}
		for _, v := range got.Victims {
			all = append(all, v.Transaction)
		}
		slices.Sort(all)
		for i, tx := range all {
			if i != tx || len(all) != len(block) {
				t.Fatalf("%v of %d", all, len(block))
			}
		}
	}
}
