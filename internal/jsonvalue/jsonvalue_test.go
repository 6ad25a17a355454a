package jsonvalue

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOf(t *testing.T) {
	for value, want := range map[string]string{
		"dbhost2:4567": `{"value":"dbhost2:4567"}`, "": `{"value":""}`, "\xff": `{"value":"` + "\ufffd" + `","value_base64":"/w=="}`,
	} {
		text, err := json.Marshal(struct{ Value }{Of(value)})
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}
