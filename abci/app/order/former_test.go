package order_test

import (
	"bytes"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
)

// A genesis of 0.1 has no time of a block. Its registry is hashed without, and the defaults hold.
func TestAGenesisWithoutTheTimeOfABlock(t *testing.T) {
	c := ordertest.New(4, 0)
	registry := c.Registry(t)
	if p := registry.Record().Parameters; p.BlockTimeMaxMS != 0 || p.DeployTimeMaxMS != 0 {
		t.Errorf("kept: %+v", p)
	}
	if p := registry.Parameters(); p.BlockTimeMaxMS != order.BlockTimeMaxMS || p.DeployTimeMaxMS != order.DeployTimeMaxMS {
		t.Errorf("in force: %+v", p)
	}
	c.Genesis.Parameters.BlockTimeMaxMS = order.BlockTimeMaxMS
	if named := c.Registry(t); named.Hash() == registry.Hash() || named.Parameters() != registry.Parameters() {
		t.Errorf("with the default named: %+v", named.Parameters())
	}
}

// A block that was pending when 0.1 stopped has its time too.
func TestAPendingBlockWithoutItsTime(t *testing.T) {
	state, _ := sealed(t)
	record, err := state.Record()
	must.Do(t, err)
	former := bytes.Replace(record, []byte(`"time_max":10000,"deploy_time_max":600000,`), nil, 1)
	back, err := order.Restore(former, state.Registries(), state.Clients(), state.Accepted())
	if err != nil || bytes.Equal(former, record) {
		t.Fatalf("%v, %s", err, former)
	}
	if has, want := back.Pending().Budget(), state.Pending().Budget(); has != want {
		t.Errorf("budget %+v, want %+v", has, want)
	}
}
