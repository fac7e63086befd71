"""charts/rayllm, made from the templates of `render`: each object is laid out once, in Jinja."""
