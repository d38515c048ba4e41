// Shows why a passkey was not used, which django-allauth's script only logs to the console.
document.addEventListener("allauth.error", (event) => {
    event.preventDefault();
    const isKnown = event.detail.exception.name === "InvalidStateError";
    let message = document.getElementById("passkey-error");
    if (!message) {
        message = document.createElement("p");
        message.id = "passkey-error";
        message.className = "message error";
        message.setAttribute("role", "alert");
        document.querySelector("h1").after(message);
    }
    message.textContent = isKnown
        ? "This device already has a passkey for you."
        : "No passkey was used. Try again, or wait a minute if you have tried often.";
});
