//! Holding JSON against a schema.

/// Holds an object against the schema's: no other properties, all that are required, and the values of an enumeration.
pub fn conforms(value: &serde_json::Value, schema: &serde_json::Value, at: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
    for name in schema["required"].as_array().unwrap() {
        assert!(object.contains_key(name.as_str().unwrap()), "{at} lacks {name}");
    }
    for (name, value) in object {
        let property = &schema["properties"][name];
        assert!(property.is_object(), "{at}: {name} is not in the schema");
        let listed = property["enum"].as_array().is_none_or(|values| values.contains(value));
        assert!(listed && (property["const"].is_null() || property["const"] == *value), "{at}: {name} is {value}");
        for item in value.as_array().filter(|_| property["items"]["type"] == "object").into_iter().flatten() {
            conforms(item, &property["items"], name);
        }
    }
}
