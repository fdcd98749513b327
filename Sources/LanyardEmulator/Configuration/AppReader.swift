/// Reads the apps of a configuration (emulator.md 3).
enum AppReader {
    typealias ReadError = SeedReader.ReadError

    static func app(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> AppSettings {
        let members = try node.members([
            "app_id", "name", "users", "api_keys", "providers", "functions", "services", "push_services",
            "redirect_uris", "allowed_request_origins",
        ])
        guard let id = members.first(where: { $0.key == "app_id" })?.value else {
            throw .init(line: node.line, "app_id is missing")
        }
        var app = AppSettings(appID: try id.text("app_id"))
        guard !app.appID.isEmpty, !app.appID.contains("/") else { throw .init(line: id.line, "no app id") }
        for (key, value) in members {
            switch key {
            case "name": app.name = try value.text(key)
            case "users": app.users = try users(value, files)
            case "api_keys": app.keys = try keys(value, files)
            case "providers": app.providers = try ProviderReader.providers(value, files, appID: app.appID)
            case "functions": app.functions = try FunctionReader.functions(value)
            case "services":
                for (name, functions) in try value.members() {
                    app.services[name] = try FunctionReader.functions(functions)
                }
            case "push_services": app.pushServices = try value.texts(key)
            case "redirect_uris": app.redirectURIs = try value.texts(key)
            case "allowed_request_origins":
                let origins = try value.texts(key)
                if let wrong = origins.first(where: { !OriginPattern.isValid($0) }) {
                    throw .init(line: value.line, "\(key): \(wrong) is no origin, such as https://*.example.com")
                }
                app.allowedOrigins = origins.map(OriginPattern.init)
            default: break
            }
        }
        try requireFunctions(of: app, line: node.line)
        return app
    }

    /// The functions that providers name must exist.
    private static func requireFunctions(of app: AppSettings, line: Int) throws(ReadError) {
        var names: [(key: String, name: String)] = []
        if case .function(let name) = app.providers.emailPassword.confirmation {
            names.append(("confirmation_function", name))
        }
        if case .function(let name) = app.providers.emailPassword.reset { names.append(("reset_function", name)) }
        if let name = app.providers.loginFunction { names.append(("function of custom-function", name)) }
        for (key, name) in names where app.functions[name] == nil {
            throw .init(line: line, "\(key): app \(app.appID) has no function \(name)")
        }
    }

    static func users(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> [Seed.User] {
        var users: [Seed.User] = []
        for element in try node.elements() {
            var email: String?, password: String?
            var user = Seed.User(email: "", password: "")
            let known = ["email", "password", "password_file", "confirmed", "disabled", "custom_data"]
            for (key, value) in try element.members(known) {
                switch key {
                case "email": email = try value.text(key)
                case "confirmed": user.isConfirmed = try value.flag(key)
                case "disabled": user.isDisabled = try value.flag(key)
                case "custom_data": user.customData = try value.object(key)
                default: password = try files.text(key, value)
                }
            }
            user.email = try required(email, "email", element)
            user.password = try required(password, "password", element)
            users.append(user)
        }
        return users
    }

    static func keys(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> [Seed.Key] {
        var keys: [Seed.Key] = []
        for element in try node.elements() {
            var name: String?
            var key = Seed.Key(name: "", key: "")
            for (member, value) in try element.members(["name", "key", "key_file", "user", "disabled"]) {
                switch member {
                case "name": name = try value.text(member)
                case "user": key.email = try value.text(member)
                case "disabled": key.isDisabled = try value.flag(member)
                default: key.key = try files.text(member, value)
                }
            }
            key.name = try required(name, "name", element)
            if key.key.isEmpty { key.key = Identifiers.key() }
            keys.append(key)
        }
        return keys
    }

    static func required<Value>(_ value: Value?, _ name: String, _ node: ConfigurationNode) throws(ReadError) -> Value {
        guard let value else { throw .init(line: node.line, "\(name) is missing") }
        return value
    }
}
