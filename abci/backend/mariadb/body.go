package mariadb

import (
	"regexp"
	"slices"
	"strings"
)

// strange are words of bodies that a block does not run. They end the block's transaction, run a
// text, take another role, reach other sessions or the node's own tables, or call a procedure whose
// words nobody agreed to. Or they leave checks of rows out, or number the captured changes, which
// are read in ascending order. Or they tell the session's user.
var strange = strings.Fields(
	"xa call prepare execute role global autocommit temporary insert_id kill get_lock release_lock release_all_locks check_constraint_checks captured " +
		"current_user current_role")

// beforeParenthesis are words that a parenthesis follows and that call nothing: keywords and types.
var beforeParenthesis = strings.Fields(`all and any as between by case cross decimal declare dec default distinct distinctrow div do else elseif
	enum except exists fixed float from group having if ignore in index inner insert intersect interval into is join key left like limit mod
	natural not nvarchar numeric on or order over partition primary regexp replace return right rlike row select set some straight_join then
	union unique until using value values when where while with xor
	bigint binary bit blob char character datetime double int integer mediumint nchar real smallint text time timestamp tinyint varbinary varchar year`)

// deterministic are functions of MariaDB 10.11 whose results follow from their arguments, from
// settings that the node settles, and from the block's time.
var deterministic = strings.Fields(`abs acos add_months adddate addtime ascii asin atan atan2 avg bin bit_and bit_count bit_length bit_or bit_xor
	cast ceil ceiling char_length character_length chr coalesce concat concat_ws conv convert cos cot count crc32 crc32c
	curdate current_date current_time current_timestamp curtime date date_add date_format date_sub datediff day dayname dayofmonth dayofweek
	dayofyear degrees elt exp export_set extract extractvalue field find_in_set floor format from_base64 from_days from_unixtime get_format greatest hex hour
	ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa instr is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 isnull
	json_array json_compact json_contains json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert json_keys
	json_length json_loose json_merge json_merge_patch json_merge_preserve json_normalize json_object json_overlaps json_query json_quote
	json_remove json_replace json_search json_set json_type json_unquote json_valid json_value
	last_day lcase least length ln localtime localtimestamp locate log log10 log2 lower lpad ltrim make_set makedate maketime max md5
	microsecond mid min minute month monthname months_between now nullif nvl nvl2 oct octet_length ord period_add period_diff pi position pow power
	quarter quote radians regexp_instr regexp_replace regexp_substr repeat reverse round row_count rpad rtrim
	sec_to_time second sformat sha sha1 sha2 sign sin soundex space sqrt std stddev stddev_pop stddev_samp str_to_date strcmp subdate substr
	substring substring_index subtime sum tan time_format time_to_sec timediff timestampadd timestampdiff to_base64 to_char to_days to_seconds
	trim trunc truncate ucase unhex unix_timestamp upper utc_date utc_time utc_timestamp var_pop var_samp variance week weekday weekofyear yearweek`)

// intoTable are words that a table with a list of columns follows.
var intoTable = []string{"insert", "into", "table", "ignore", "replace", "low_priority", "high_priority", "delayed", "recursive", "with"}

var bodyToken = regexp.MustCompile("(?s)^(?:\\s+|--(?:\\s[^\n]*|$)|#[^\n]*|'(?:[^']|'')*'|(\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`)|([A-Za-z_0-9$\u0080-\U0010FFFF]+)|/\\*|.)")

// part is a part of a body beside blanks, comments and texts: a word or a name in lower case, or a
// character.
type part struct {
	text         string
	word, quoted bool
}

// bodyObstacle is the first part of a body that no block runs; empty: there is none. Quotes and
// comments are those of the ledger's modes.
func bodyObstacle(body string) string {
	var parts []part
	for body != "" {
		m := bodyToken.FindStringSubmatch(body)
		body = body[len(m[0]):]
		switch {
		case m[1] != "":
			quote := m[1][:1]
			name := strings.ReplaceAll(m[1][1:len(m[1])-1], quote+quote, quote)
			parts = append(parts, part{strings.ToLower(name), true, true})
		case m[2] != "":
			parts = append(parts, part{strings.ToLower(m[2]), true, false})
		case strings.TrimSpace(m[0]) == "", len(m[0]) > 1 && m[0] != "/*", m[0] == "#":
			continue
		default:
			parts = append(parts, part{text: m[0]})
		}
		if obstacle := obstacleAtEnd(parts); obstacle != "" {
			return obstacle
		}
	}
	return ""
}

func obstacleAtEnd(parts []part) string {
	last := parts[len(parts)-1]
	switch {
	case last.text == "captured", last.word && !last.quoted && slices.Contains(strange, last.text):
		return strings.ToUpper(last.text)
	case last.text == "value" && len(parts) > 1 && slices.Contains([]string{"next", "previous"}, parts[len(parts)-2].text):
		return "a sequence, whose numbers differ between databases"
	case last.word:
	case last.text == "@":
		return "a variable of the session or the server"
	case last.text == "/*":
		return "a comment that some servers execute: begin comments with --"
	case last.text == "(":
		return obstacleInCall(parts[:len(parts)-1])
	}
	return ""
}

// obstacleInCall is for the parts before a parenthesis. The words of a stored function are in no
// digest, so that calls are of known functions alone.
func obstacleInCall(parts []part) string {
	if len(parts) == 0 || !parts[len(parts)-1].word {
		return ""
	}
	name, first := parts[len(parts)-1], len(parts)-1
	for first >= 2 && parts[first-1].text == "." {
		first -= 2
	}
	table := first > 0 && slices.Contains(intoTable, parts[first-1].text)
	keyword := !name.quoted && slices.Contains(beforeParenthesis, name.text)
	qualified := first < len(parts)-1
	if table || !qualified && (keyword || slices.Contains(deterministic, name.text)) {
		return ""
	}
	return "function " + name.text + "(), which is not on the list of functions with the same values everywhere"
}
