"""Names of browsers and systems for the list of sessions.

Browsers freeze most of their User-Agent, so a few tokens tell all that it still says.
"""

# In the order of precedence, since most browsers also contain the tokens of others.
BROWSERS = {
    "Edg": "Edge", "OPR/": "Opera", "SamsungBrowser/": "Samsung Internet", "Firefox/": "Firefox",
    "FxiOS/": "Firefox", "CriOS/": "Chrome", "Chrome/": "Chrome", "Safari/": "Safari",
}  # fmt: skip
SYSTEMS = {
    "iPhone": "iPhone", "iPad": "iPad", "Android": "Android", "Windows": "Windows", "CrOS": "ChromeOS",
    "Mac OS X": "macOS", "Linux": "Linux",
}  # fmt: skip


def describe_browser(user_agent: str) -> str:
    """Describe a browser such as `Chrome on Linux`."""
    browser = next((name for token, name in BROWSERS.items() if token in user_agent), "Unknown browser")
    system = next((name for token, name in SYSTEMS.items() if token in user_agent), "")
    return f"{browser} on {system}" if system else browser
