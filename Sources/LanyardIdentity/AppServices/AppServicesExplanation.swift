/// What an error of a call about an account means, in plain words, by the service's `error_code` (app-services-accounts.md 4.8).
///
/// The code decides, never the text: the service's texts were masked once, the codes were not.
enum AppServicesExplanation {
    /// nil: status and code say all that is known.
    static func text(_ status: Int, _ code: String?, isLink: Bool) -> String? {
        if isLink, let text = linkText(status, code) { return text }
        if let text = code.flatMap({ texts[$0] }) { return text }
        switch (status, code) {
        case (401, _): return "it does not accept the user's token for this call"
        case (404, nil): return "it does not know what the call names, or does not offer this call"
        case (409, nil): return "something of that name exists already"
        case (429, _): return "too many calls; try again later"
        default: return nil
        }
    }

    private static func linkText(_ status: Int, _ code: String?) -> String? {
        switch (status, code) {
        case (_, "InvalidPassword"): "the password is wrong, or there is no account with this email"
        case (_, "AuthError"): "the credential is not valid, or its account is not confirmed"
        case (401, _): "the credential belongs to another account, is not valid, or this kind of login is not enabled"
        case (500, nil): "the account may have a login with email and password already; it can have one only"
        default: nil
        }
    }

    /// One of the service's codes. It tells nothing of a secret, whatever that holds.
    static func isKnown(_ code: String) -> Bool { texts[code] != nil }

    private static let texts: [String: String] = [
        "AccountNameInUse": "there is an account with this email already; log in, or reset its password",
        "APIKeyAlreadyExists": "the user has an API key of this name already",
        "APIKeyNotFound": "the user has no API key with this id",
        "ArgumentsNotAllowed": "it does not take these arguments",
        "AuthError": "the credential is not valid",
        "AuthProviderNotFound": "it does not offer this kind of login; enable it at the service",
        "BadRequest": "it does not accept a value of the call; error says which",
        "DomainNotAllowed": "it does not accept calls for this domain",
        "ExecutionTimeLimitExceeded": "the function ran longer than the service allows",
        "FunctionExecutionError": "the function has thrown an error",
        "FunctionInvalid": "the function cannot be run",
        "FunctionNotCallable": "clients may not call this function",
        "FunctionNotFound": "the app has no function of this name",
        "FunctionSyntaxError": "the function's source has a syntax error",
        "InternalServerError": "it has failed by itself",
        "InvalidParameter": "it does not accept a value of the call; error says which",
        "InvalidPassword": "the password is wrong, or there is no account with this email",
        "InvalidSession": "it does not accept the user's token for this call",
        "MaintenanceInProgress": "the app is in maintenance; try again later",
        "MissingAuthReq": "it requires another authentication",
        "MissingParameter": "a value of the call is missing; error says which",
        "MongoDBError": "its database has refused the operation",
        "NoMatchingRuleFound": "no rule of the app allows this to the user",
        "NotCallable": "clients may not call this function",
        "ReadSizeLimitExceeded": "the result is larger than the service allows",
        "RestrictedHost": "the app may not reach this host",
        "SchemaValidationFailedWrite": "a document does not match its schema",
        "ServiceCommandNotFound": "the linked service has no such command",
        "ServiceNotFound": "the app has no such linked service",
        "UserAlreadyConfirmed": "the account is confirmed already; log in",
        "UserAppDomainMismatch": "the token belongs to another app",
        "UserDisabled": "the user is disabled at the service",
        "UserNotFound": "there is no account with this email",
        "UserpassTokenInvalid":
            "the token is unknown, used, or older than 30 minutes; request a new mail",
        "ValueNotFound": "the app has no such value",
    ]
}
