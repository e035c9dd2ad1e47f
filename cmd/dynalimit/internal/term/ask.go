package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrDeclined says that whoever was asked did not agree.
var ErrDeclined = errors.New("not confirmed, nothing was changed")

// NobodyError says that a question was to be asked where nobody answers.
type NobodyError struct{ Question string }

func (e *NobodyError) Error() string {
	return fmt.Sprintf("%s: nobody can be asked here; give --yes if that is meant", strings.TrimRight(e.Question, ".?"))
}

// Confirm asks a question whose answer is a word that is not typed by accident, such as
// the name of what is to be deleted. It fails with ErrDeclined for another answer, and
// with a *NobodyError where there is no terminal.
func (o *Output) Confirm(ctx context.Context, question, word string) error {
	if o.In == nil {
		return &NobodyError{question}
	}
	o.silence.Load().pause() // whoever is asked may take their time
	defer o.silence.Load().broken()
	o.note(fmt.Sprintf("%s\nType %s to go on: ", question, o.Bold(word)))
	answer := make(chan string, 1)
	go func() { // ends with the program if nobody answers
		line, _ := bufio.NewReader(o.In).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case given := <-answer:
		if given != word {
			return fmt.Errorf("%w; run it again and type %s if it is meant", ErrDeclined, word)
		}
		return nil
	}
}
