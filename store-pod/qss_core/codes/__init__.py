"""What each error code means: one text for the pages, the command `qss explain` and HTTP.

1. `explanation` has the type of a text: the meaning of a code, its cause and its remedy.
2. Pure data, by the place where a failure begins: `requests` (the request is wrong, or its caller
   has no right), `answers` (the store is elsewhere, or cannot answer now), `batches` (writers and
   their batches) and `commands` (codes that the commands of one machine, of Kubernetes and of
   Spark tell beside those of pods).
3. `catalogue` joins them: `EXPLANATIONS` by code, `type_of` for the member `type` of a problem
   document, and `code_of_text` for the code that a person gives.
4. `error_classes` finds the class of a code, for an error that came over the wire.
5. `page` writes the page `store-pod/docs/errors.md`. `python -m qss_core.codes` prints it.

The classes in `qss_core.errors` own the codes, their HTTP status and whether a caller may repeat;
the texts here repeat none of that. Tests see that each class has a text, that each text has a
class, and that the page is the text: `tests/unit/qss_core/codes/test_codes.py`. A class of another
package whose code a command prints has its text here too, so that this package imports none of
them.
"""
