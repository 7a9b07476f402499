from __future__ import annotations

from typing import Any

from muster_client import to_dataframe

PEOPLE: list[dict[str, Any]] = [
    {
        "profile_id": "1",
        "profile": {"full_name": "Ada", "location": {"city": "Lisbon"}},
        "experience": [{"title": "Engineer"}, {"title": "Lead", "company_name": "Acme"}],
        "social_accounts": ["https://a.example/ada", "https://b.example/ada"],
    },
    {"profile_id": "2", "profile": {"full_name": "Li"}},
]


def test_dataframe_has_one_row_per_record() -> None:
    table = to_dataframe(iter(PEOPLE))
    assert list(table["profile.full_name"]) == ["Ada", "Li"]
    assert table["profile.location.city"].to_list()[0] == "Lisbon"
    assert table["profile.location.city"].isna().to_list() == [False, True]
    assert len(table["experience"][0]) == 2


def test_dataframe_has_one_row_per_entry() -> None:
    table = to_dataframe(PEOPLE, "experience", keep=["profile_id", "absent"])
    assert table["profile_id"].to_list() == ["1", "1"]
    assert table["title"].to_list() == ["Engineer", "Lead"]
    assert table["absent"].isna().all()
    links = to_dataframe(PEOPLE, "social_accounts")
    assert links["social_accounts"].to_list() == PEOPLE[0]["social_accounts"]


def test_dataframe_of_nothing_is_empty() -> None:
    assert to_dataframe([]).empty
    assert to_dataframe(PEOPLE, "languages").empty
