"""Functions, streams and push registrations."""

import json

import ejson
from protocol_schema import check_function_result, check_json_type, check_members, check_stream_head, text
from world import check, expect, same


def result(world, name, arguments=(), service=None, session=None):
    session = session or world.anonymous()
    return check_function_result(world.client().call(session.access, name, arguments, service))


@check("156", "the sum of 1 to 5 is 15, and tells its type")
def sum_of_five(world):
    body = result(world, "sum", [1, 2, 3, 4, 5])
    same("result", ejson.plain(body), 15)
    same("numbers without a type", ejson.bare_numbers(body), [])


@check("functions", "a result is the bare value: a text, null, true, a document with typed numbers")
def bare_results(world):
    session = world.anonymous()
    same("text", result(world, "greet", ["alice"], session=session), "hello alice")
    same("null", result(world, "nothing", session=session), None)
    same("true", result(world, "updateUserData", [{"a": "b"}], session=session), True)
    document = result(world, "document", session=session)
    same("document", ejson.plain(document), {"colour": "blue", "size": 3})
    same("numbers without a type", ejson.bare_numbers(document), [])


@check("functions", "extended JSON passes both ways")
def extended_json(world):
    sent = {"n": 1, "long": 1 << 40, "real": 1.5, "list": [True, None, "ä"]}
    same("echo", ejson.plain(result(world, "echo", [sent])), sent)


@check("functions", "a function runs as the user whose token came")
def caller(world):
    _, session = world.user()
    same("id", result(world, "whoami", session=session)["id"], session.user_id)


@check("functions", "the functions of a linked service are called by the service's name")
def linked_service(world):
    same("find", result(world, "find", [{"database": "a", "collection": "b"}], "mongodb-atlas"), [])


@check("157", "an unknown function is told")
def unknown_function(world):
    session = world.anonymous()
    world.refused(world.client().call(session.access, "no_such_function"), "function unknown")


@check("functions", "a function that throws, one that clients must not call, and an unknown service")
def failing_functions(world):
    session = world.anonymous()
    client = world.client()
    body = world.refused(client.call(session.access, "fail", ["the reason"]), "function failed")
    expect("error: function failed", "the reason" in body["error"], f"the text is {body['error']!r}")
    world.refused(client.call(session.access, "greet", ["bob"]), "function failed")
    world.refused(client.call(session.access, "secret"), "function private")
    world.refused(client.call(session.access, "find", [], "no-such-service"), "service unknown", service="no-such-service")


@check("functions", "a stream brings its events one by one")
def stream(world):
    session = world.anonymous()
    with world.client().open_stream(session.access, "watch", [{"database": "a", "collection": "b"}], "mongodb-atlas") as events:
        check_stream_head(events.head)
        found = []
        while (event := events.event()) is not None:
            found.append(event)
    same("names", {name for name, _ in found}, {"message"})
    same("events", [ejson.plain(json.loads(data))["operationType"] for _, data in found], ["insert", "delete"])


@check("functions", "what goes wrong in a stream is an error of the response, or an event that is called error")
def stream_error(world):
    session = world.anonymous()
    with world.client().open_stream(session.access, "no_such_function") as events:
        if events.head.status != 200:
            world.refused(events.rest(), "function unknown")
            return
        name, data = events.event()
    same("event", name, "error")
    check_members("error event", json.loads(data), {"error": text, "error_code": text})


@check("functions", "a stream without a token, or with one that is no token, is refused")
def stream_refused(world):
    client = world.client()
    for token in (None, "nonsense"):
        with client.open_stream(token, "watch", [{}], "mongodb-atlas") as events:
            response = events.rest()
        same("status", response.status, 401)
        check_json_type("stream response", response)


@check("158", "a device is registered for push and deregistered; an unknown service is told")
def push(world):
    _, session = world.user()
    client = world.client()
    for response in (client.register_push(session.access, "gcm", "a-registration"), client.deregister_push(session.access, "gcm")):
        expect("push", response.status in range(200, 300), f"{response}")
    for response in (client.register_push(session.access, "gcm_blah", "a"), client.deregister_push(session.access, "gcm_blah")):
        world.refused(response, "service unknown", service="gcm_blah")
    world.refused(client.register_push(None, "gcm", "a"), "no authorization")
