import LanyardFoundations
import LanyardRequestPath

/// The OpenAPI 3.1 document of the admin API. The paths are written from `AdminRoute.allCases`, so that no route can be missing.
enum AdminDocument {
    /// `GET /v1/openapi.json`; the same bytes for each call.
    static let response = OperatorResponse(status: 200, body: json)

    private static let json: [UInt8] = {
        var json = JSONWriter(capacity: 96 << 10)
        json.beginObject()
        json.member("openapi", "3.1.0")
        json.key("info")
        json.beginObject()
        json.member("title", "Lanyard's admin API")
        json.member("version", "1")
        json.member(
            "description", "Logs users in and out, switches between them and shows their state. See docs/use/admin.md.")
        json.endObject()
        json.key("security")
        json.raw(#"[{"adminToken":[]}]"#)
        json.separate()
        json.key("paths")
        json.beginObject()
        var paths: [String] = []
        for route in AdminRoute.allCases where !paths.contains(route.path) { paths.append(route.path) }
        for path in paths {
            json.key(path)
            json.beginObject()
            for route in AdminRoute.allCases where route.path == path { write(route, into: &json) }
            json.endObject()
        }
        json.endObject()
        json.key("components")
        json.raw(AdminSchemas.components)
        json.endObject()
        return json.bytes
    }()

    private static func write(_ route: AdminRoute, into json: inout JSONWriter) {
        json.key(route.methodKey)
        json.beginObject()
        json.member("operationId", route.operationID)
        json.member("summary", route.summary)
        writeParameters(of: route, into: &json)
        if let body = route.requestSchema {
            json.key("requestBody")
            json.beginObject()
            json.key("required")
            json.bool(route.isBodyRequired)
            json.key("content")
            writeContent("application/json", body, into: &json)
            json.endObject()
        }
        json.key("responses")
        json.beginObject()
        for success in route.successes { writeSuccess(success, route, into: &json) }
        writeProblems(of: route, into: &json)
        json.endObject()
        json.endObject()
    }

    private static func writeParameters(of route: AdminRoute, into json: inout JSONWriter) {
        let segments = route.path.split(separator: "/")
        let names = AdminRoute.Parameter.allCases.filter { segments.contains("{\($0.rawValue)}") }
        let queries = queries(of: route)
        guard !names.isEmpty || !queries.isEmpty else { return }
        json.key("parameters")
        json.beginArray()
        for name in names {
            json.beginObject()
            json.member("name", name.rawValue)
            json.member("in", "path")
            json.key("required")
            json.bool(true)
            writeReference(name.schema, under: "schema", into: &json)
            json.endObject()
        }
        for query in queries {
            json.beginObject()
            json.member("name", query.name)
            json.member("in", "query")
            json.member("description", query.description)
            writeReference(query.schema, under: "schema", into: &json)
            json.endObject()
        }
        json.endArray()
    }

    private static func queries(of route: AdminRoute) -> [(name: String, description: String, schema: String)] {
        switch route {
        case .remove: [("account", "Deletes the account at the identity service first.", "AccountDeletion")]
        case .users: pageQueries
        case .status:
            pageQueries + [
                ("after_route", "The last route of the page before.", "NamePart"),
                ("route", "Routes whose names contain this.", "NamePart"),
            ]
        case .token:
            [
                ("audience", "Of a token that a route names.", "TokenText"),
                ("resource", "The same; the parameter is repeated for each resource.", "TokenText"),
                ("scope", "The same; scopes with spaces between them.", "TokenText"),
            ]
        default: []
        }
    }

    private static let pageQueries = [
        ("limit", "Users, and routes, of this response at most; in the order of names.", "PageLimit"),
        ("after", "The last user of the page before.", "NamePart"),
        ("user", "Users whose names contain this.", "NamePart"),
        ("state", "Users of this state, or with this session.", "StateFilter"),
    ]

    private static func writeSuccess(
        _ success: (status: Int, schema: String?), _ route: AdminRoute, into json: inout JSONWriter
    ) {
        json.key("\(success.status)")
        json.beginObject()
        json.member("description", success.status == 204 ? "Done; there is no body." : "Done.")
        if success.status == 201, route == .addUser {
            json.key("headers")
            json.raw(#"{"Location":{"description":"The path of the new user.","schema":{"type":"string"}}}"#)
            json.separate()
        }
        if let schema = success.schema {
            json.key("content")
            writeContent("application/json", schema, into: &json)
        }
        json.endObject()
    }

    /// One response for each status, with the types that it may have.
    private static func writeProblems(of route: AdminRoute, into json: inout JSONWriter) {
        let problems = AdminProblem.allCases.filter { $0.concerns(route) }
        for status in Set(problems.flatMap { $0.statuses(of: route) }).sorted() {
            let types = problems.filter { $0.statuses(of: route).contains(status) }
            json.key(status)
            json.beginObject()
            json.member("description", types.map(\.rawValue).joined(separator: ", "))
            if let field = AdminProblem.field(of: status) {
                json.key("headers")
                json.raw(#"{"\#(field)":{"schema":{"type":"string"}}}"#)
                json.separate()
            }
            json.key("content")
            json.beginObject()
            json.key(ProblemDetail.contentType)
            json.beginObject()
            json.key("schema")
            json.beginObject()
            json.key("allOf")
            let enumeration = types.map { #""urn:lanyard:problem:\#($0.rawValue)""# }.joined(separator: ",")
            json.raw(
                ##"[{"$ref":"#/components/schemas/Problem"},{"properties":{"type":{"enum":[\##(enumeration)]}}}]"##)
            json.endObject()
            json.endObject()
            json.endObject()
            json.endObject()
        }
    }

    private static func writeContent(_ type: String, _ schema: String, into json: inout JSONWriter) {
        json.beginObject()
        json.key(type)
        json.beginObject()
        writeReference(schema, under: "schema", into: &json)
        json.endObject()
        json.endObject()
    }

    private static func writeReference(_ schema: String, under key: String, into json: inout JSONWriter) {
        json.key(key)
        json.beginObject()
        json.member("$ref", "#/components/schemas/" + schema)
        json.endObject()
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: String, _ value: String) {
        key(name)
        string(value)
    }

    /// The comma after raw JSON, before the next member.
    fileprivate mutating func separate() { raw(",") }
}

// MARK: - What the document says of each route

extension AdminRoute {
    fileprivate var methodKey: String {
        switch method {
        case .get: "get"
        case .delete: "delete"
        default: "post"
        }
    }

    /// The call's name in the audit line.
    var operationID: String { call(["user", "name"]).auditName }

    fileprivate var summary: String {
        switch self {
        case .openAPI: "This document."
        case .status: "Version, uptime, active user, addresses and all users."
        case .users: "All users that this device knows."
        case .addUser: "Logs a new user in."
        case .user: "One user."
        case .remove: "Forgets a user on this device, and ends its session."
        case .logIn: "Logs a user in again; without a credential as configured, perhaps in a browser."
        case .loginResult: "A login in a browser: pending, done or failed."
        case .cancelLogin: "Ends a login in a browser."
        case .completeLogin: "Hands over the query that the browser came back with."
        case .activate: "Switches the active user without a login."
        case .refresh: "Fetches a new access token now."
        case .logOut: "Wipes the tokens, then revokes the session at the service."
        case .link: "Adds another login to the account."
        case .customData: "The custom data of a new access token."
        case .token: "The access token; only with admin.expose_tokens."
        case .profile: "The service's profile of the account."
        case .apiKeys: "The account's API keys."
        case .createAPIKey: "Makes a user API key; its only showing."
        case .apiKey: "One API key."
        case .deleteAPIKey: "Deletes an API key."
        case .enableAPIKey: "Enables an API key."
        case .disableAPIKey: "Disables an API key."
        case .function: "Calls a function of the app as the user."
        case .emailPassword(.register): "Makes an account."
        case .emailPassword(.confirm): "Confirms an account with the pair of the confirmation mail."
        case .emailPassword(.resendConfirmation): "Sends another confirmation mail."
        case .emailPassword(.retryCustomConfirmation): "Runs the app's confirmation function again."
        case .emailPassword(.sendResetEmail): "Sends a mail for a new password."
        case .emailPassword(.resetPassword): "Sets the password with the pair of that mail."
        case .emailPassword(.callResetFunction): "Runs the app's reset function."
        case .logLevel: "The level of the log, and the configured one."
        case .setLogLevel: "Sets the level of the log until the next start or change."
        case .log: "The latest lines of the log that name a route."
        case .reload: "Reads the configuration again, as SIGHUP does."
        case .shutdown: "Ends Lanyard as SIGTERM does."
        }
    }

    /// nil: the call takes no body.
    fileprivate var requestSchema: String? {
        switch self {
        case .addUser: "NewUser"
        case .logIn: "Login"
        case .completeLogin: "BrowserReturn"
        case .link: "Link"
        case .createAPIKey: "NewAPIKey"
        case .function: "Arguments"
        case .emailPassword(.register): "Registration"
        case .emailPassword(.confirm): "MailedPair"
        case .emailPassword(.resendConfirmation), .emailPassword(.retryCustomConfirmation),
            .emailPassword(.sendResetEmail):
            "EmailAddress"
        case .emailPassword(.resetPassword): "NewPassword"
        case .emailPassword(.callResetFunction): "ResetFunctionCall"
        case .setLogLevel: "NewLogLevel"
        default: nil
        }
    }

    fileprivate var isBodyRequired: Bool { self != .logIn && self != .function }

    fileprivate var successes: [(status: Int, schema: String?)] {
        switch self {
        case .openAPI: [(200, "OpenAPI")]
        case .status: [(200, "Status")]
        case .users: [(200, "Users")]
        case .addUser: [(200, "ChangedUser"), (201, "ChangedUser")]
        case .user: [(200, "User")]
        case .remove: [(200, "RemovedUser"), (204, nil)]
        case .logIn: [(200, "ChangedUser"), (202, "BrowserLogin")]
        case .loginResult, .completeLogin: [(200, "BrowserLogin")]
        case .cancelLogin: [(204, nil)]
        case .activate: [(200, "ChangedUser")]
        case .refresh: [(200, "Refreshed")]
        case .logOut: [(200, "LoggedOut")]
        case .link: [(200, "Linked")]
        case .customData, .profile: [(200, "Document")]
        case .token: [(200, "Token")]
        case .apiKeys: [(200, "APIKeys")]
        case .createAPIKey: [(201, "CreatedAPIKey")]
        case .apiKey: [(200, "APIKey")]
        case .deleteAPIKey: [(204, nil)]
        case .enableAPIKey, .disableAPIKey: [(200, "SwitchedAPIKey")]
        case .function: [(200, "Result")]
        case .emailPassword(.register): [(201, "EmailAddress")]
        case .emailPassword: [(200, "Document")]
        case .logLevel, .setLogLevel: [(200, "LogLevels")]
        case .log: [(200, "LogLines")]
        case .reload: [(200, "Reloaded")]
        case .shutdown: [(202, "Stopping")]
        }
    }
}

extension AdminRoute.Parameter {
    /// The name of the parameter's schema.
    fileprivate var schema: String {
        switch self {
        case .user, .identity, .route: "Name"
        case .id: "APIKeyID"
        case .login: "LoginID"
        case .name: "FunctionName"
        }
    }
}
