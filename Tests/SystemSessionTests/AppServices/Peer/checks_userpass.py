"""Accounts by email and password: registration, confirmation, reset."""

from protocol_schema import check_empty_success
from world import PASSWORD, check, expect, same, setup

JUNK = (("junk", "junk"), ("e30=", "e30="), ("", ""), ("ab" * 64, "junk"), ("junk", "ab" * 12))
STALE = ("ab" * 64, "ab" * 12)
NEW = "battery-staple"


def done(world, response, *statuses):
    check_empty_success("email and password response", response, *(statuses or (200,)))


def loses(world, email, password, app, reason="wrong password"):
    world.refused(world.client(app).email_login(email, password), reason)


# Registration

@check("109", "an email is registered once")
def register_twice(world):
    client = world.client()
    email = world.email()
    done(world, client.register(email, PASSWORD), 201)
    world.refused(client.register(email, PASSWORD), "email taken")
    world.refused(client.register(email, NEW), "email taken")
    world.session(email)


@check("110", "a registration that the confirmation function refuses, or in which it throws, fails")
def registration_refused(world):
    client = world.client(setup.FUNCTION)
    for tag in ("nobody", "realm_throw"):
        email = world.email(tag)
        world.refused(client.register(email, PASSWORD), "confirmation refused", email=email)


@check("111", "after it the email is unknown, and may be tried again")
def after_refusal(world):
    client = world.client(setup.FUNCTION)
    email = world.email("nobody")
    for _ in range(2):
        world.refused(client.register(email, PASSWORD), "confirmation refused", email=email)
        loses(world, email, PASSWORD, setup.FUNCTION, "unknown email")
        world.refused(client.call_confirmation(email), "user not found")


@check("112", "a password has 6 to 128 characters, and an email is not empty")
def register_limits(world):
    client = world.client()
    for password in ("", "12345", "p" * 129):
        world.refused(client.register(world.email(), password), "password length")
    world.refused(client.register("", PASSWORD), "email invalid")
    for password in ("123456", "p" * 128):
        email = world.email()
        done(world, client.register(email, password), 201)
        world.session(email, password)


@check("email", "a token that comes along with a call that demands none changes nothing")
def stray_tokens(world):
    _, session = world.user()
    for token in (session.access, "nonsense"):
        client = world.client()
        email = world.email()
        same("status", client.send("POST", "/api/client/v2.0/app/" + setup.FULL + "/auth/providers/local-userpass/register",
                                   {"email": email, "password": PASSWORD}, token).status, 201)
        world.refused(client.register(email, PASSWORD, stray=token), "email taken")
        world.refused(client.confirm(*JUNK[0], stray=token), "token data")
        world.refused(client.send_reset(world.email(), stray=token), "user not found")


# Confirmation

@check("113", "a confirmation with junk is refused as such")
def confirm_junk(world):
    for app in (setup.FULL, setup.MAIL, setup.FUNCTION):
        for token, identifier in JUNK:
            world.refused(world.client(app).confirm(token, identifier), "token data")


@check("114", "a confirmation with a well-formed pair that is not known is told as expired or invalid")
def confirm_stale(world):
    world.refused(world.client(setup.MAIL).confirm(*STALE), "token expired")


@check("email", "a mailed pair confirms the account, once")
def confirm_by_mail(world):
    email = world.registered(setup.MAIL)
    client = world.client(setup.MAIL)
    loses(world, email, PASSWORD, setup.MAIL, "pending account")
    mail = world.newest_mail(email, setup.MAIL, "confirmation")
    expect("mail", len(mail["token"]) == 128 and len(mail["token_id"]) == 24, f"{mail}")
    expect("mail", mail["url"].startswith("http://localhost/confirm?"), f"{mail['url']}")
    expect("mail", f"token={mail['token']}" in mail["url"] and f"tokenId={mail['token_id']}" in mail["url"], f"{mail['url']}")
    world.refused(client.confirm(mail["token"], STALE[1]), "token expired")
    done(world, client.confirm(mail["token"], mail["token_id"]))
    world.session(email, app=setup.MAIL)
    world.refused(client.confirm(mail["token"], mail["token_id"]), "token expired")


@check("email", "a pair is good for 30 minutes", once=True)
def pair_expires(world):
    email = world.registered(setup.MAIL)
    client = world.client(setup.MAIL)
    same("origin", client.origin, world.base_url)
    mail = world.newest_mail(email, setup.MAIL, "confirmation")
    with world.later(1810):
        world.refused(client.confirm(mail["token"], mail["token_id"]), "token expired")
    with world.later(1790):
        done(world, client.confirm(mail["token"], mail["token_id"]))


@check("115", "a mail that is asked for again has a new pair; a confirmed account needs none, an unknown one gets none")
def resend(world):
    email = world.registered(setup.MAIL)
    client = world.client(setup.MAIL)
    first = world.newest_mail(email, setup.MAIL, "confirmation")
    done(world, client.send_confirmation(email), 200, 202)
    second = world.newest_mail(email, setup.MAIL, "confirmation")
    expect("mail", second["token"] != first["token"] and second["token_id"] != first["token_id"], "the same pair")
    done(world, client.confirm(second["token"], second["token_id"]))
    world.refused(client.send_confirmation(email), "already confirmed")
    world.refused(client.send_confirmation(world.email()), "user not found")
    # With automatic confirmation every account is confirmed.
    world.refused(world.client().send_confirmation(world.registered()), "already confirmed")


@check("116", "the confirmation function is run again for pending accounts alone")
def call_again(world):
    client = world.client(setup.FUNCTION)
    email = world.registered(setup.FUNCTION, world.email("realm_verify"))
    world.session(email, app=setup.FUNCTION)
    world.refused(client.call_confirmation(email), "already confirmed")
    world.refused(client.call_confirmation(world.email()), "user not found")


@check("117", "a pending account does not log in; when the function agrees at last, it does")
def pending(world):
    client = world.client(setup.FUNCTION)
    email = world.registered(setup.FUNCTION, world.email("realm_pending"))
    loses(world, email, PASSWORD, setup.FUNCTION, "pending account")
    world.refused(client.register(email, PASSWORD), "email taken")
    done(world, client.call_confirmation(email))
    world.session(email, app=setup.FUNCTION)


@check("118", "a pending account is confirmed by the pair that the function got")
def pending_pair(world):
    email = world.registered(setup.FUNCTION, world.email("realm_pending"))
    pair = world.newest_mail(email, setup.FUNCTION, "confirmation")
    same("sent_by", pair["sent_by"], "function")
    done(world, world.client(setup.FUNCTION).confirm(pair["token"], pair["token_id"]))
    world.session(email, app=setup.FUNCTION)


@check("119", "with automatic confirmation there is no function to run again, for any account")
def automatic(world):
    for email in (world.registered(), world.email()):
        world.refused(world.client().call_confirmation(email), "confirmation automatic", email=email)


# Reset

@check("120", "a reset with junk is refused as such")
def reset_junk(world):
    for token, identifier in JUNK:
        world.refused(world.client().reset(NEW, token, identifier), "token data")
    world.refused(world.client().reset(NEW, *STALE), "token expired")


@check("email", "a mailed pair sets another password, once")
def reset_by_mail(world):
    email, session = world.user()
    client = world.client()
    done(world, client.send_reset(email), 200, 202)
    mail = world.newest_mail(email, setup.FULL, "reset")
    world.refused(client.reset("short", mail["token"], mail["token_id"]), "password length")
    done(world, client.reset(NEW, mail["token"], mail["token_id"]))
    same("user_id", world.session(email, NEW).user_id, session.user_id)
    loses(world, email, PASSWORD, setup.FULL)
    world.refused(client.reset(PASSWORD, mail["token"], mail["token_id"]), "token expired")


@check("121", "a reset function that agrees: the new password is in force, the old one is not")
def reset_function(world):
    email = world.registered(setup.FUNCTION, world.email("realm_verify"))
    before = world.session(email, app=setup.FUNCTION)
    password = "realm_tests_do_reset-" + world.word()
    done(world, world.client(setup.FUNCTION).call_reset(email, password, ["an argument", 3]))
    same("user_id", world.session(email, password, setup.FUNCTION).user_id, before.user_id)
    loses(world, email, PASSWORD, setup.FUNCTION)
    run = [run for run in world.control("GET", f"/functions?app={setup.FUNCTION}") if run["name"] == "reset"][-1]
    same("members of the first argument", set(run["arguments"][0]), {"token", "tokenId", "username", "password", "currentPasswordValid"})
    same("the other arguments", len(run["arguments"]), 3)


@check("122", "a reset function that refuses or throws changes nothing; an unknown email is told")
def reset_function_refuses(world):
    email = world.registered(setup.FUNCTION, world.email("realm_verify"))
    client = world.client(setup.FUNCTION)
    for password in ("another-" + world.word(), "realm_throw-" + world.word()):
        world.refused(client.call_reset(email, password), "reset refused", email=email)
        loses(world, email, password, setup.FUNCTION)
    world.session(email, app=setup.FUNCTION)
    world.refused(client.call_reset(world.email(), "realm_tests_do_reset"), "user not found")


@check("123", "a reset function that waits: the old password stays in force until the pair comes")
def reset_pending(world):
    email = world.registered(setup.FUNCTION, world.email("realm_verify"))
    client = world.client(setup.FUNCTION)
    password = "realm_tests_do_not_reset-" + world.word()
    done(world, client.call_reset(email, password))
    loses(world, email, password, setup.FUNCTION)
    world.session(email, app=setup.FUNCTION)
    pair = world.newest_mail(email, setup.FUNCTION, "reset")
    done(world, client.reset(password, pair["token"], pair["token_id"]))
    world.session(email, password, setup.FUNCTION)
    loses(world, email, PASSWORD, setup.FUNCTION)


@check("124", "an app with a reset function sends no reset mails")
def reset_mail_of_function(world):
    email = world.registered(setup.FUNCTION, world.email("realm_verify"))
    world.refused(world.client(setup.FUNCTION).send_reset(email), "reset by function")


@check("125", "a reset mail for an unknown email is refused")
def reset_unknown(world):
    world.refused(world.client().send_reset(world.email()), "user not found")
