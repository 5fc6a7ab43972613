"""The accounts that the binding of reviews gets, and the limits of their number."""

import msgspec

from qss_operator.kubernetes.access.review_accounts import ALL_MAX, Account, left_out, within_limits

NOBODY: frozenset[Account] = frozenset()


def made_of(**counts: int) -> dict[Account, str]:
    """So many accounts by namespace; a higher number is a newer account."""
    return {
        (namespace, f"a{number:04d}"): f"2026-11-23T00:{number // 60:02d}:{number % 60:02d}Z"
        for namespace, count in counts.items()
        for number in range(count)
    }


def test_each_namespace_has_its_limit() -> None:
    made = made_of(evil=30, shop=2)
    taken = within_limits(made, NOBODY, namespace_max=10, all_max=100)
    assert left_out(made, taken) == {"evil": 20}
    assert ("evil", "a0009") in taken
    assert ("evil", "a0010") not in taken, "older stores come first"


def test_many_namespaces_share_what_there_is() -> None:
    made = made_of(one=9, two=9, three=9, shop=2)
    taken = within_limits(made, NOBODY, namespace_max=10, all_max=20)
    assert left_out(made, taken) == {"one": 3, "two": 3, "three": 3}
    assert len(taken) == 20
    assert within_limits(made, NOBODY, namespace_max=10, all_max=29) == set(made)


def test_who_is_in_the_binding_is_not_pushed_out_by_newcomers() -> None:
    made = made_of(shop=30)
    bound = frozenset({("shop", "a0028"), ("shop", "a0029")})
    assert bound < within_limits(made, bound, namespace_max=10, all_max=100)


def test_a_full_binding_is_smaller_than_the_largest_object_of_a_cluster() -> None:
    subject = {"kind": "ServiceAccount", "name": "n" * 63, "namespace": "s" * 63}
    assert ALL_MAX * (len(msgspec.json.encode(subject)) + 1) < 1_500_000
