"""`fastcell predict`: what the meta-model says of cells, and why."""

from typing import Annotated, Any

import typer

from . import common

_EFFECTS = 6


def command(
    cells: Annotated[
        list[str], typer.Argument(help="names of the library, codes, or files with a cell's text")
    ],
    json: common.Json = False,
) -> None:
    """Predict how well cells of the space learn the Adding task, and explain it."""
    from ..errors import CodeError
    from ..predictor import shipped

    predictor = shipped()
    predictions = list[dict[str, Any]]()
    for given in cells:
        _, code = common.find_cell(given)
        if code is None:
            raise CodeError(f"{given}: expected a cell of the search space, found another")
        estimate = predictor([code])
        predictions.append(
            {
                "cell": given,
                "code": code,
                "usable": round(float(estimate.usable[0]), 4),
                "nmse": float(f"{10 ** float(estimate.target[0]):.3g}"),
                "factor": float(f"{10 ** float(estimate.spread[0]):.3g}"),
                "effects": [
                    {"column": name, "value": value, "effect": round(effect, 3)}
                    for name, value, effect in predictor.explain(code)[:_EFFECTS]
                ],
            }
        )
    if json:
        common.print_json(predictions)
    else:
        for prediction in predictions:
            _print(prediction)


def _print(prediction: dict[str, Any]) -> None:
    print(
        f"{prediction['cell']}: usable with probability {prediction['usable']:.2f}; best validation"
        f" NMSE about {prediction['nmse']:g}, within a factor of {prediction['factor']:g}"
    )
    print("  decades that a column adds to the error, from the mean over the labels:")
    for each in prediction["effects"]:
        print(f"  {each['effect']:+.2f}  {each['column']} = {each['value']:g}")
