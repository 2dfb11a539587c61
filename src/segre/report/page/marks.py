"""The shapes that stand beside the labels of how things are known, one for each."""

from __future__ import annotations

from markupsafe import Markup

# Inside an SVG element of 16 by 16, in the colour of the text around it.
MARKS = {
    "proved by computation": Markup(
        '<path fill="currentColor" fill-rule="evenodd" d="M8 .8a7.2 7.2 0 1 0 0 14.4A7.2 7.2 0 0 0 '
        '8 .8zm3.3 4.1 1.3 1.2-5.3 6-3.5-3.4 1.3-1.3 2.1 2.1z"/>'
    ),
    "proved by theorem": Markup(
        '<path fill="currentColor" fill-rule="evenodd" d="M2.5.8h11v14.4h-11zm2.2 3v1.5h6.6V3.8zm6 '
        '3.4L7.2 11 5.5 9.4l-1 1.1 2.8 2.5 4.5-4.8z"/>'
    ),
    "exact": Markup(
        '<path fill="currentColor" fill-rule="evenodd" d="M8 .4 15.6 8 8 15.6.4 8zM4.8 '
        '5.9v1.5h6.4V5.9zm0 2.9v1.5h6.4V8.8z"/>'
    ),
    "certain": Markup(
        '<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        '<path d="M4.4 8.2 7 10.8l4.7-5.4" fill="none" stroke="currentColor" stroke-width="1.8"/>'
    ),
    "likely": Markup(
        '<circle cx="8" cy="8" r="6.3" fill="none" stroke="currentColor" stroke-width="1.5" '
        'stroke-dasharray="2.6 2.35"/><path d="M4.4 8.2 7 10.8l4.7-5.4" fill="none" '
        'stroke="currentColor" stroke-width="1.8"/>'
    ),
    "bounded": Markup(
        '<path fill="currentColor" d="M8 1a7 7 0 0 0 0 14z"/><circle cx="8" cy="8" r="6.3" '
        'fill="none" stroke="currentColor" stroke-width="1.5"/>'
    ),
    "measured": Markup('<path fill="currentColor" d="M1.5 15V9h3v6zm5 0V5h3v10zm5 0V1h3v14z"/>'),
    "estimated": Markup(
        '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.7" '
        'stroke-dasharray="2.6 2.27"/><path d="M4.6 8.8q1.7-2.2 3.4-.8t3.4-.8" fill="none" '
        'stroke="currentColor" stroke-width="1.6"/>'
    ),
    "not run": Markup(
        '<rect x="1.5" y="1.5" width="13" height="13" rx="2" fill="none" stroke="currentColor" '
        'stroke-width="1.5"/><path d="M4.5 8h7" stroke="currentColor" stroke-width="1.7"/>'
    ),
}
