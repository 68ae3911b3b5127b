package wire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// shape says how often the fields of a message may repeat, so that they are counted before anything
// is decoded. A MiB of empty messages is half a million of them, and a hundred MiB once decoded.
// Fields that it does not name stand once.
type shape []repeats

type repeats struct {
	field protowire.Number
	name  string
	most  int   // 0: once
	in    shape // of the message that it is; nil: what is in it is not looked at
}

// Messages of which others know only the bytes have a shape of their own: bundles, changes and
// proposals are signed as bytes.
var (
	orderedShape = shape{
		{1, "certificate", 0, shape{{4, "votes", CertificateVotesMax, nil}}},
		{2, "bundle", 0, shape{}},
		{3, "governance", 0, signedGovernanceShape},
		{4, "client", 0, shape{}},
	}
	signedGovernanceShape = shape{{2, "approvals", OrganisationsMax, nil}}
	governanceShape       = shape{{4, "actions", GovernanceActionsMax, shape{{3, "add", 0, shape{{3, "validators", MemberValidatorsMax, nil}}}}}}
	bundleShape           = shape{{transactionsField, "transactions", BundleTransactionsMax, chainedShape}}
	chainedShape          = shape{{2, "agreements", AgreementsMax, nil}}
	proposalShape         = shape{{7, "parameters", ParametersMax, nil}}
	agreementShape        = shape{{1, "ask", 0, shape{{2, "asked", askedMax, nil}}}, {2, "answer", 0, shape{}}}
	stateShape            = shape{
		{1, "request", 0, shape{{3, "ranges", 0, shape{}}, {4, "rows", 0, shape{}}}},
		{2, "response", 0, shape{
			{2, "tables", 0, shape{{2, "tables", StateTablesMax, nil}}},
			{3, "digests", 0, shape{{1, "ranges", StateRangesMax, nil}}},
		}},
	}
	// A client's request may break a bound and is answered then, with the bound's SQLSTATE;
	// this is where the connection ends.
	requestShape = shape{
		{2, "submit", 0, shape{{2, "statements", requestRepeatsMax, shape{{3, "parameters", requestRepeatsMax, nil}, {8, "sealed", requestRepeatsMax, nil}}}}},
		{3, "wait", 0, shape{{1, "ids", requestRepeatsMax, nil}}},
		{5, "governance", 0, shape{{1, "change", 0, signedGovernanceShape}}},
		{10, "submit_signed", 0, shape{{1, "proposals", requestRepeatsMax, nil}}},
	}
)

// requestRepeatsMax is four times what a gateway takes in one request.
const requestRepeatsMax = 40_000

const notItsSpelling = "field %d at byte %d is unknown, repeated, out of order or not in its shortest form"

// check refuses a message that is not so: fields ascend, and repeat at most as often. It makes
// nothing. Cost: one step for each field.
func (s shape) check(name string, raw []byte) error {
	if e := s.breach(raw); e != nil {
		e.Field = name + e.Field
		return e
	}
	return nil
}

// breach is check, with the path from the message as the field.
func (s shape) breach(raw []byte) *FieldError {
	last, count := protowire.Number(0), 0
	for at := 0; at < len(raw); {
		field, kind, value, next := nextField(raw, at)
		if next < 0 {
			return &FieldError{Reason: "not a protobuf message"}
		}
		if field != last {
			count = 0
		}
		count++
		i := slices.IndexFunc(s, func(r repeats) bool { return r.field == field })
		switch {
		case i >= 0 && s[i].most > 0 && count > s[i].most:
			return &FieldError{Field: "." + s[i].name, Reason: fmt.Sprintf("%d of them or more, want at most %d", count, s[i].most)}
		case field < last, count > 1 && (i < 0 || s[i].most == 0):
			return &FieldError{Reason: fmt.Sprintf(notItsSpelling, field, at)}
		case i >= 0 && s[i].in != nil && kind == protowire.BytesType:
			if e := s[i].in.breach(value); e != nil {
				e.Field = s[i].path(count-1) + e.Field
				return e
			}
		}
		last, at = field, next
	}
	return nil
}

func (r repeats) path(index int) string {
	if r.most == 0 {
		return "." + r.name
	}
	return fmt.Sprintf(".%s[%d]", r.name, index)
}

// nextField reads the field at a place: value is that of a length-delimited one. next is where the
// one after begins; -1: there is none that is well formed.
func nextField(raw []byte, at int) (field protowire.Number, kind protowire.Type, value []byte, next int) {
	field, kind, n := protowire.ConsumeTag(raw[at:])
	if n < 0 {
		return 0, 0, nil, -1
	}
	at += n
	if kind == protowire.BytesType {
		value, n = protowire.ConsumeBytes(raw[at:])
	} else {
		n = protowire.ConsumeFieldValue(field, kind, raw[at:])
	}
	if n < 0 {
		return 0, 0, nil, -1
	}
	return field, kind, value, at + n
}

// peek returns the bytes of the length-delimited field at the end of a path, without decoding what
// is beside it; nil: there is none, or fields before it do not ascend.
func peek(raw []byte, path ...protowire.Number) []byte {
	for _, wanted := range path {
		value, kind := field(raw, wanted)
		if raw = value; kind != protowire.BytesType {
			return nil
		}
	}
	return raw
}

// field returns what is behind the tag of a field: of one that is length-delimited its bytes, else
// the rest of the message.
func field(raw []byte, wanted protowire.Number) ([]byte, protowire.Type) {
	last := protowire.Number(0)
	for at := 0; at < len(raw); {
		number, kind, value, next := nextField(raw, at)
		switch {
		case next < 0 || number <= last || number > wanted:
			return nil, -1
		case number == wanted && kind == protowire.BytesType:
			return value, kind
		case number == wanted:
			return raw[at+protowire.SizeTag(number):], kind
		}
		last, at = number, next
	}
	return nil, -1
}

func peekNumber(raw []byte, wanted protowire.Number) uint64 {
	value, kind := field(raw, wanted)
	if kind != protowire.VarintType {
		return 0
	}
	n, _ := protowire.ConsumeVarint(value)
	return n
}

// Head is what stands at the beginning of what an organisation signs, read without decoding the
// rest. Nothing in it is known to be right before the signature is verified and the whole is
// decoded.
type Head struct {
	ChainID, Organisation string
	Sequence              uint64
	Transactions          int // of a bundle
}

// PeekBundle reads the head of a bundle and counts its transactions.
func PeekBundle(raw []byte) (Head, error) {
	h := peekHead(raw)
	last := protowire.Number(0)
	for at := 0; at < len(raw) && h.Transactions <= BundleTransactionsMax; {
		field, _, _, next := nextField(raw, at)
		switch {
		case next < 0:
			return h, fieldErrorf("bundle", "not a protobuf message")
		case field == transactionsField:
			h.Transactions++
		case field <= last || field > transactionsField:
			return h, &FieldError{Field: "bundle", Reason: fmt.Sprintf(notItsSpelling, field, at), Unknown: field > transactionsField}
		}
		last, at = field, next
	}
	switch {
	case h.Transactions == 0:
		return h, fieldErrorf("bundle.transactions", "0 of them, want 1 to %d", BundleTransactionsMax)
	case h.Transactions > BundleTransactionsMax:
		return h, fieldErrorf("bundle.transactions", "%d of them or more, want at most %d", h.Transactions, BundleTransactionsMax)
	}
	return h, nil
}

// PeekOwner returns the organisation that an OrderedTx says it is of: of a bundle or a change of
// clients; "" for others.
func PeekOwner(raw []byte) string {
	if bundle := peek(raw, 2, 1, 2); bundle != nil {
		return string(bundle)
	}
	return string(peek(raw, 4, 1, 2))
}

// PeekClientChange reads the head of a change of clients.
func PeekClientChange(raw []byte) Head { return peekHead(raw) }

func peekHead(raw []byte) Head {
	return Head{ChainID: string(peek(raw, 1)), Organisation: string(peek(raw, 2)), Sequence: peekNumber(raw, 3)}
}

// PeekGovernanceChange reads chain and sequence of a governance change.
func PeekGovernanceChange(raw []byte) Head {
	return Head{ChainID: string(peek(raw, 1)), Sequence: peekNumber(raw, 2)}
}
