package targets

import (
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

func TestEachTargetIsThereOnce(t *testing.T) {
	if len(byID) != len(All) {
		t.Errorf("%d ids of %d targets", len(byID), len(All))
	}
	for _, one := range All {
		if (one.Target == report.Target{}) || Of(one.ID) != one.Target {
			t.Errorf("%+v", one)
		}
	}
	if (Of("executor.none") != report.Target{}) || len(Under("verify")) != 2 {
		t.Errorf("%v, %v", Of("executor.none"), Under("verify"))
	}
}
