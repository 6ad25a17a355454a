package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rule of queue: the ballots of the election are in the order of their tokens.
func TestQueue(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('b', 3000, 7), open('a', 4000, 8)")
	query("SELECT enter('b', 'x', 'n1', 0, 1, 'first'), enter('a', 'x', 'n2', 0, 1, 'second'), enter('a', 'y', 'n3', 1, 1, 'v')")
	query("SELECT ask('x', 2)")
	const all = "SELECT token, session, nonce, convert_from(value, 'UTF8'), resign, mark, ttl FROM queue('x', "
	require.Equal(t, "1|b|n1|first|f|6|3000\n2|a|n2|second|t|9|4000", query(all+"null)"))
	require.Equal(t, "1|b|n1|first|f|6|3000", query(all+"1)"))
	query("SELECT acknowledge('a', 2, 1, 'v')") // which moves the row within the table
	require.Equal(t, "1|b|n1|first|f|6|3000", query(all+"1)"))
}

// The rules of prefixes: the elections whose names begin so are listed, each once, and cleared, with no other one.
func TestElectionsOfAPrefix(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7)")
	for i, election := range []string{"app/x", "app/x", "app/y", "ap", "app", "a%/x"} {
		query("SELECT enter('a', '" + election + "', 'n" + string(rune('0'+i)) + "', " + string(rune('0'+i)) + ", 1, 'v')")
	}
	elections := func(prefix string) string {
		return query("SELECT string_agg(e, ' ' ORDER BY e) FROM elections('" + prefix + "') e")
	}
	require.Equal(t, "app/x app/y", elections("app/"))
	require.Equal(t, "a%/x", elections("a%/"), "a prefix is no pattern")
	require.Equal(t, "a%/x ap app app/x app/y", elections(""))
	query("SELECT clear('app/x', 'app/')")
	require.Equal(t, "a%/x ap app app/y", elections(""))
	query("SELECT clear(null, 'app/')")
	require.Equal(t, "a%/x ap app", elections(""))
	query("SELECT clear(null, '')")
	require.Empty(t, elections(""))
}
